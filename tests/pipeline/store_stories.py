"""Tables in an object store to which harm is done at one request after the other, see `test_stores_killed`.

A `Story` is one table, prepared; then a writer whose requests pass the proxy; then what readers see; then the same writer
again, as a restarted job would; then upkeep. What it has seen is a `Seen` for each of those.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol, Self

from tests.outside.azure_server import ACCOUNT, SECRET, AzureServer
from tests.outside.needs import ROOT
from tests.outside.s3_server import KEYS, S3Server
from tests.pipeline.request_proxy import Plan, Request, Watch
from tests.pipeline.store_writer import CHANGES, FIRST, Order

Rows = list[list[int]]

BEFORE: Final[Rows] = [[key, 1] for key in range(8)]
APPENDED: Final[Rows] = [*BEFORE, *([key, 2] for key in range(8, 16))]
UPSERTED: Final[Rows] = sorted([key, at] for key, at in {**FIRST, **CHANGES}.items() if at is not None)

_numbers = count()


class Deed(NamedTuple):
    """What is done while harm is, and what the table has before and after."""

    name: str
    prepared_by: tuple[str, ...]
    before: Rows
    after: Rows
    positions: tuple[int | None, int]
    """The batch before and after."""


DEEDS: Final = {
    "create": Deed("create", (), [], BEFORE, (None, 0)),
    "append": Deed("append", ("create",), BEFORE, APPENDED, (0, 1)),
    "compact": Deed("compact", ("create", "append"), APPENDED, APPENDED, (1, 1)),
    "vacuum": Deed("vacuum", ("create", "append", "compact", "abandon"), APPENDED, APPENDED, (1, 1)),
    "upsert": Deed("upsert", ("create-upserts",), BEFORE, UPSERTED, (0, 1)),
    "compact-upserts": Deed("compact", ("create-upserts", "upsert"), UPSERTED, UPSERTED, (1, 1)),
    "vacuum-upserts": Deed(
        "vacuum", ("create-upserts", "upsert", "compact", "abandon-upserts"), UPSERTED, UPSERTED, (1, 1)
    ),
}


class Seen(NamedTuple):
    """What readers see at one moment, and what a doctor finds."""

    rows: Rows
    position: int | None
    offsets: int | None
    orphaned: list[str]
    missing: list[str]
    named: list[str]
    listed: list[str]
    """Every Parquet file that the store has of the table, outside its log."""

    @property
    def unnamed(self) -> list[str]:
        return sorted(set(self.listed) - set(self.named))


class Aftermath(NamedTuple):
    """What follows the harm."""

    after_harm: Seen
    again: Seen
    after_upkeep: Seen
    late: int | None
    """How many of changes that are older than the table's are found to be late."""


class StoreWriter:
    """The process of store_writer.py."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("store_writer.py"))]
        environment = {
            "PYTHONPATH": f"{ROOT / '.import'}:{ROOT}",
            "PATH": "/usr/bin:/bin",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._read() == {"ready": True}
        return self

    def __exit__(self, *_: object) -> None:
        self._input.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def do(self, order: Order, watch: Watch | None = None) -> dict[str, Any]:
        """How it ended; a watch learns the process that does it."""
        self._input.write(json.dumps(order._asdict()) + "\n")
        self._input.flush()
        pid = self._read()["pid"]
        if watch is not None:
            watch.name_writer(pid)
        return self._read()

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the writer has ended: {self._process.poll()}"
        found: dict[str, Any] = json.loads(line)
        return found


class Story(NamedTuple):
    """A table in a bucket of its own, and how it is reached with and without harm."""

    writer: StoreWriter
    watch: Watch
    deed: Deed
    direct: Order
    watched: Order

    def prepare(self) -> None:
        if self.deed.prepared_by:
            self.must(*self.deed.prepared_by)

    def must(self, *deeds: str) -> list[Any]:
        """Do it without harm."""
        ended = self.writer.do(self.direct._replace(deeds=list(deeds)))
        assert "values" in ended, f"{deeds}: {ended}"
        values: list[Any] = ended["values"]
        return values

    def harmed(self, plan: Plan) -> tuple[dict[str, Any], list[Request]]:
        """How the deed ended, and its requests."""
        self.watch.begin(plan)
        ended = self.writer.do(self.watched._replace(deeds=[self.deed.name]), self.watch)
        was_killed = self.watch.end()
        assert was_killed == ("killed" in ended), ended
        return ended, self.watch.requests

    def aftermath(self) -> Aftermath:
        """What is seen then, when the job is started again, and after upkeep."""
        is_late_tried = "upsert" in (*self.deed.prepared_by, self.deed.name)
        deeds = ["look", self.deed.name, "look", *(["upsert-late"] if is_late_tried else []), "vacuum", "look"]
        values = dict(enumerate(self.must(*deeds)))
        looks = [Seen(**values[place]) for place, deed in enumerate(deeds) if deed == "look"]
        return Aftermath(*looks, late=values[3][-1] if is_late_tried else None)


class Place(Protocol):
    """Where tables are, and which requests of their writers pass the proxy."""

    def orders(self, name: str) -> tuple[Order, Order]:
        """Of a new table: straight to its servers, and by the proxy."""
        ...


@dataclass(frozen=True)
class InBuckets:
    """Tables in an object store, whose requests pass the proxy."""

    kind: str
    server: S3Server | AzureServer
    proxied: int
    """The port of the proxy."""
    catalog: dict[str, str] = field(default_factory=dict)
    """Its properties; empty for Delta."""

    def orders(self, name: str) -> tuple[Order, Order]:
        bucket = self.server.make_bucket(f"bucket-{name}")
        is_in_azure = isinstance(self.server, AzureServer)
        folder = "" if is_in_azure else str(self.server.directory / "buckets" / f"bucket-{name}")
        keys = (ACCOUNT, SECRET) if is_in_azure else (KEYS.access_key, KEYS.secret_key)
        direct, watched = (
            Order([], self.kind, endpoint, f"{bucket}/tables/{name}", self.catalog, folder, keys, is_in_azure)
            for endpoint in (self.server.endpoint, self.server.endpoint_at(self.proxied))
        )
        return direct, watched


@dataclass(frozen=True)
class OfRestCatalog:
    """Iceberg tables in a folder, of a REST catalog whose requests pass the proxy."""

    folder: Path
    uri: str
    proxied: str
    """The catalog's address with the proxy."""

    def orders(self, name: str) -> tuple[Order, Order]:
        folder = str(self.folder / name)
        Path(folder).mkdir()
        direct, watched = (
            Order([], "iceberg", "", folder, {"type": "rest", "uri": uri}, folder) for uri in (self.uri, self.proxied)
        )
        return direct, watched


@dataclass(frozen=True)
class Stories:
    """Tells one story after the other, each with a table in a bucket of its own."""

    writer: StoreWriter
    watch: Watch
    place: Place

    @contextmanager
    def story(self, deed: Deed) -> Iterator[Story]:
        name = f"t{next(_numbers)}"
        direct, watched = self.place.orders(name)
        try:
            yield Story(self.writer, self.watch, deed, direct, watched)
        finally:
            if direct.folder:
                shutil.rmtree(direct.folder)


def outcome(ended: Mapping[str, Any]) -> str:
    """The one sentence, or how else it ended."""
    return str(ended.get("error") or ("killed" if "killed" in ended else "done"))


def check_whole(deed: Deed, seen: Seen, at_request: str) -> None:
    """Rows and position are of one version, and every file that no version names is found."""
    versions = [(deed.before, deed.positions[0]), (deed.after, deed.positions[1])]
    assert (seen.rows, seen.position) in versions, at_request
    assert seen.offsets == (None if seen.position is None else 8 * (seen.position + 1)), at_request
    assert seen.missing == [], at_request
    if seen.position is not None:  # Without a table there is nothing to examine.
        assert seen.orphaned == seen.unnamed, at_request


def check_again(deed: Deed, again: Seen, at_request: str) -> None:
    """The job was started again, and nothing was in its way."""
    assert (again.rows, again.position) == (deed.after, deed.positions[1]), at_request
    assert again.orphaned == again.unnamed, at_request
    assert again.missing == [], at_request


def check_upkeep(deed: Deed, seen: Aftermath, at_request: str) -> None:
    """Nothing is left of what the harm left, nothing is gone that is needed, and what was deleted stays deleted."""
    last = seen.after_upkeep
    assert last.rows == deed.after, at_request
    assert (last.orphaned, last.unnamed, last.missing) == ([], [], []), at_request
    assert seen.late in {None, len(CHANGES)}, at_request


def check_sentence(error: str) -> None:
    assert "Traceback" not in error
    assert "\n" not in error
