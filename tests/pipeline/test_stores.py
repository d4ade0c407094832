"""Tables and states in an object store, without Spark: a real S3 server and what it refuses, and Microsoft's emulator."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import obstore
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.cloudpickle import dumps, loads

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.audit import read_counts
from sordini.pipeline.jobs.batch_writer import BatchWriter
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.job_schema import registered_of
from sordini.pipeline.jobs.state_files import Conflict, StateError, StoreFiles
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.jobs.state_lock import LOCK
from sordini.pipeline.tables import Table, open_table
from sordini.pipeline.tables.batch_append import BatchTable
from sordini.pipeline.tables.object_storage import Keys, ObjectStorage
from sordini.pipeline.tables.store_client import StoreError, check_store, open_store
from tests.outside.azure_server import AzureServer
from tests.outside.ports import free_port
from tests.outside.s3_server import KEYS, S3Server
from tests.support.frames import frame

RACERS = 16
ROUNDS = 30
_numbers = count()

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


Server = S3Server | AzureServer
of_s3 = pytest.mark.parametrize("server", [S3Server], ids=["s3"], indirect=True)


@pytest.fixture(scope="module", params=[S3Server, AzureServer], ids=["s3", "azure"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with request.param(tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture
def bucket(server: Server) -> str:
    return server.make_bucket(f"bucket-{next(_numbers)}")


def open_in(kind: str, bucket: str, storage: ObjectStorage, catalog: Path, app_id: str = "app") -> Table:
    options = {} if kind == "delta" else {"catalog.type": "sql", "catalog.uri": f"sqlite:///{catalog}"}
    return open_table(kind, f"{bucket}/tables/events", app_id=app_id, storage=storage, **options)


def ids_of(kind: str, bucket: str, storage: ObjectStorage, catalog: Path) -> list[int]:
    """What a reader that knows nothing of us sees."""
    location = f"{bucket}/tables/events"
    if kind == "delta":
        from deltalake import DeltaTable

        rows = DeltaTable(location, storage_options=storage.object_store_options(location)).to_pyarrow_table()
    else:
        properties = storage.pyiceberg_properties(location)
        reader = load_catalog("sordini", type="sql", uri=f"sqlite:///{catalog}", **properties)
        rows = reader.load_table("default.events").scan().to_arrow()
    return sorted(rows["id"].to_pylist())


@pytest.mark.parametrize("mode", ["create", "update"])
def test_of_many_conditional_puts_of_one_name_exactly_one_is_granted(server: Server, bucket: str, mode: str) -> None:
    """What commits of tables, notes and locks rest on; without it nothing else here would say anything."""
    stores = [open_store(bucket, server.storage.object_store_options(bucket)) for _ in range(RACERS)]

    async def race(name: str) -> list[int]:
        how: Any = "create"
        if mode == "update":
            how = {"e_tag": (await obstore.put_async(stores[0], name, b"first"))["e_tag"]}

        async def one(number: int) -> int | None:
            try:
                await obstore.put_async(stores[number], name, b"%02d" % number * 500, mode=how, use_multipart=False)
            except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
                return None
            return number

        return [won for won in await asyncio.gather(*map(one, range(RACERS))) if won is not None]

    for number in range(ROUNDS):
        [winner] = asyncio.run(race(f"log/{number:020}.json"))
        assert bytes(stores[0].get(f"log/{number:020}.json").bytes()) == b"%02d" % winner * 500


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_in_a_store_has_each_batch_once_by_whichever_process(
    kind: str, server: Server, bucket: str, tmp_path: Path
) -> None:
    catalog = tmp_path / "catalog.db"
    table = open_in(kind, bucket, server.storage, catalog)
    assert table.last() is None
    assert table.append(frame(range(8)), 0, {"t": {0: 8}}).rows == 8
    other = open_in(kind, bucket, server.storage, catalog, "other")
    # Another writer commits while this batch is staged, and an older process of this writer the same batch.
    former = open_in(kind, bucket, server.storage, catalog)

    def meanwhile() -> None:
        other.append(frame(range(100, 104)), 0)
        former.append(frame(range(8, 16)), 1, {"t": {0: 16}})

    assert table.append(frame(range(8, 16), meanwhile), 1, {"t": {0: 16}}).was_there
    assert open_in(kind, bucket, server.storage, catalog).last() == (1, {"t": {0: 16}})
    everything = [*range(16), *range(100, 104)]
    assert ids_of(kind, bucket, server.storage, catalog) == everything
    done = table.compact(1_000_000)
    assert done.files_before > done.files_after
    assert ids_of(kind, bucket, server.storage, catalog) == everything
    abandoned = f"{bucket}/tables/events/{'data/' if kind == 'iceberg' else ''}"
    name = f"part-{'0' * 32}-00000-{'0' * 16}.parquet"
    open_store(abandoned, server.storage.object_store_options(bucket)).put(name, b"a batch that was never committed")
    found = table.health(1_000_000, 0)
    assert found is not None
    assert found.missing == ()
    # With what was staged for the batch that another process had committed.
    orphaned = {path.rpartition("/")[2] for path in found.orphaned}
    assert name in orphaned
    assert orphaned <= {path.rpartition("/")[2] for path in table.clean_up(0)}
    assert ids_of(kind, bucket, server.storage, catalog) == everything


def test_of_two_runs_that_replace_a_note_one_is_refused(server: Server, bucket: str) -> None:
    one, other = (StateFolder(f"{bucket}/state", server.storage) for _ in range(2))
    assert one.read("load/done.json") is None
    other.write("load/done.json", {"batch_id": 1})
    with pytest.raises(Conflict, match=r"load/done\.json was changed by another run"):
        one.write("load/done.json", {"batch_id": 7})
    assert one.read("load/done.json") == {"batch_id": 1}
    one.write("load/done.json", {"batch_id": 2})
    assert other.below("load").read("done.json") == {"batch_id": 2}
    assert (one.names(""), one.names("load"), one.names("nothing")) == (["load"], ["done.json"], [])


def test_files_are_deleted_whether_or_not_others_are_there(server: Server, bucket: str) -> None:
    files = StoreFiles(f"{bucket}/state", server.storage)
    for name in ("1", "3", "4"):
        files.put(name, b"")
    files.delete(["1", "2", "3"])
    files.delete(["5"])
    assert files.names("") == ["4"]


def test_a_run_holds_its_lock_in_the_store_until_it_ends(server: Server, bucket: str) -> None:
    first, second = (StateFolder(f"{bucket}/state", server.storage) for _ in range(2))
    there = rf"process {os.getpid()} on .*: it holds {bucket}/state/lock"
    with first.locked(), pytest.raises(StateError, match=there), second.locked():
        pass
    with second.locked():
        pass
    assert second.names("") == []


def test_the_lock_of_a_process_that_was_killed_is_taken_over_at_once(server: Server, bucket: str) -> None:
    location = f"{bucket}/state"
    program = (
        "import os, pickle, sys, signal\n"
        "from sordini.pipeline.jobs.state_folder import StateFolder\n"
        f"with StateFolder({location!r}, pickle.loads(bytes.fromhex(sys.argv[1]))).locked():\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    storage = pickle.dumps(server.storage).hex()
    subprocess.run([sys.executable, "-c", program, storage], check=False, timeout=120)
    state = StateFolder(location, server.storage)
    assert state.names("") == [LOCK]
    with state.locked():
        assert json.loads(state.read_text(LOCK) or "")["process"] == os.getpid()


def test_the_lock_of_a_run_of_this_process_that_could_not_delete_it_is_taken_over_at_once(
    server: Server, bucket: str
) -> None:
    files, state = StoreFiles(f"{bucket}/state", server.storage), StateFolder(f"{bucket}/state", server.storage)
    with state.locked():
        left = files.read(LOCK) or b""
    files.put(LOCK, left)
    with StateFolder(f"{bucket}/state", server.storage).locked():
        assert json.loads(files.read(LOCK) or b"")["run"] != json.loads(left)["run"]


@pytest.mark.parametrize(
    ("changes", "is_taken"),
    [
        ({"host": "elsewhere", "boot": "b"}, False),
        ({"host": "elsewhere", "boot": "b", "until": 1.0}, True),
        ({"until": "?"}, True),
    ],
)
def test_a_lock_of_another_machine_is_taken_over_when_it_has_expired(
    server: Server, bucket: str, changes: dict[str, Any], is_taken: bool
) -> None:
    files = StoreFiles(f"{bucket}/state", server.storage)
    with StateFolder(f"{bucket}/state", server.storage).locked():
        theirs = json.loads(files.read(LOCK) or b"")
    files.put(LOCK, json.dumps({**theirs, **changes}).encode())
    if is_taken:
        with StateFolder(f"{bucket}/state", server.storage).locked():
            pass
    else:
        state = StateFolder(f"{bucket}/state", server.storage)
        with pytest.raises(StateError, match=r"on elsewhere.* expires \d+ s after a crash"), state.locked():
            pass


def test_a_checkpoint_comes_back_from_the_store_whatever_the_machine_has(
    server: Server, bucket: str, tmp_path: Path
) -> None:
    def on_machine(name: str) -> StateFolder:
        return StateFolder(f"{bucket}/state", replace(server.storage, working_folder=str(tmp_path / name)))

    def files(folder: Path) -> dict[str, str]:
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}

    with on_machine("a").checkpoint("0", is_local=True) as mirror:
        assert mirror is not None
        for name in ("metadata", "offsets/0", "state/0/1/1.delta", ".offsets.crc", "commits/.0.crc"):
            (mirror.working / name).parent.mkdir(parents=True, exist_ok=True)
            (mirror.working / name).write_text(name)
        mirror.store()
        (mirror.working / "state/0/1/1.delta").unlink()
        (mirror.working / "commits/0").write_text("done")
        mirror.store()
    with on_machine("b").checkpoint("0", is_local=True) as mirror:
        assert mirror is not None
        assert files(mirror.working) == {"metadata": "metadata", "offsets/0": "offsets/0", "commits/0": "done"}
        # A machine with an older copy takes what the store has.
        stale = tmp_path / "a" / mirror.working.parent.name / "checkpoint" / "offsets"
        stale.mkdir(parents=True)
        (stale / "7").write_text("old")
        with on_machine("a").checkpoint("0", is_local=True) as again:
            assert again is not None
            assert files(again.working) == files(mirror.working)


def test_of_two_runs_that_plan_the_same_batch_one_is_refused_before_it_writes(
    server: Server, bucket: str, tmp_path: Path
) -> None:
    def on_machine(name: str) -> StateFolder:
        return StateFolder(f"{bucket}/state", replace(server.storage, working_folder=str(tmp_path / name)))

    with (
        on_machine("a").checkpoint("0", is_local=True) as one,
        on_machine("b").checkpoint("0", is_local=True) as other,
    ):
        assert one is not None
        assert other is not None
        for mirror, plan in ((one, "up to 7"), (other, "up to 9")):
            (mirror.working / "offsets").mkdir()
            (mirror.working / "offsets/0").write_text(plan)
        one.store()
        with pytest.raises(Conflict, match=r"0/offsets/0 was written by another run"):
            other.store()
    assert on_machine("a").read_text("0/offsets/0") == "up to 7"


def test_a_state_of_windows_needs_a_shared_folder_where_spark_has_other_machines(server: Server, bucket: str) -> None:
    state = StateFolder(f"{bucket}/state", server.storage)
    needed = r"storage\.working_folder has to name a folder that all of them share"
    with pytest.raises(StateError, match=needed), state.checkpoint("0", is_local=False):
        pass


def test_counts_are_read_from_a_store(server: Server, bucket: str) -> None:
    store = open_store(bucket, server.storage.object_store_options(bucket))
    store.put("counts.jsonl", b'{"topic": "t", "window_start": "1970-01-01T00:01:00Z", "count": 4}\n' * 2)
    assert read_counts(f"{bucket}/counts.jsonl", 60, server.storage) == {("t", 60): 8}
    with pytest.raises(PipelineError, match="there is no such object"):
        read_counts(f"{bucket}/none.jsonl", 60, server.storage)


class Refusing(BaseHTTPRequestHandler):
    """Answers every request as S3 does when it refuses it for the reason in `code`."""

    code = ""

    def do_GET(self) -> None:
        body = f"<?xml version='1.0'?><Error><Code>{self.code}</Code><Message>m</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")

    do_PUT = do_HEAD = do_POST = do_GET  # noqa: N815 - names of the library's.

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        ("AccessDenied", "refuses access: the credentials lack a permission"),
        ("ExpiredToken", "refuses the credentials as they have expired: get new ones"),
        ("RequestTimeTooSkewed", "this machine's clock is wrong"),
    ],
)
def test_what_a_store_refuses_is_one_sentence_from_whichever_library(code: str, reported: str, tmp_path: Path) -> None:
    handler = type("Handler", (Refusing,), {"code": code})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            storage = ObjectStorage(f"http://127.0.0.1:{server.server_port}", "us-east-1", KEYS, allow_http=True)
            with pytest.raises(StoreError) as error:
                check_store(storage, "s3://bucket/tables")
            assert str(error.value).startswith("s3://bucket/tables ")
            assert reported in str(error.value)
            with pytest.raises(StateError, match=reported):
                StateFolder("s3://bucket/state", storage).write("done.json", {})
            for kind in ("delta", "iceberg"):
                with pytest.raises(StoreError) as refused:
                    open_in(kind, "s3://bucket", storage, tmp_path / "catalog.db").append(frame(range(8)), 0)
                assert str(refused.value).startswith("s3://bucket/tables/events ")
                assert reported in str(refused.value)
        finally:
            server.shutdown()
            serving.join()


@of_s3
@pytest.mark.parametrize(
    ("changes", "bucket_name", "reported"),
    [
        ({"credentials": Keys(KEYS.access_key, "wrong")}, "", "the secret key does not belong to the access key"),
        ({"credentials": Keys("nobody", "wrong")}, "", "does not know the access key"),
        ({}, "missing", "s3://missing is in no bucket: it has to be created first"),
        ({"endpoint": f"http://127.0.0.1:{free_port()}"}, "", "cannot be reached: nothing answers at its endpoint"),
    ],
)
def test_wrong_settings_are_reported_before_anything_is_begun(
    server: Server, bucket: str, changes: dict[str, Any], bucket_name: str, reported: str
) -> None:
    place = f"s3://{bucket_name}" if bucket_name else bucket
    with pytest.raises(StoreError) as error:
        check_store(replace(server.storage, **changes), place)
    assert reported in str(error.value)
    assert "wrong" not in str(error.value)
    assert KEYS.secret_key not in str(error.value)


def a_job(bucket: str, server: Server) -> Job:
    """Nothing of it is on this machine; its keys are in the job file, and not in the environment."""
    return Job.of(
        name="events",
        source={"topics": ["t"], "bootstrap": "127.0.0.1:1"},
        sink={"location": f"{bucket}/tables/events", "upkeep": {"small_files_max": 2}},
        state=f"{bucket}/state",
        storage={"endpoint": server.endpoint, "allow_http": True, **server.settings},
    )


def test_upkeep_notes_what_it_has_done_in_a_state_that_is_in_a_store(server: Server, bucket: str) -> None:
    flow = BatchWriter.of(a_job(bucket, server), None)  # type: ignore[arg-type]
    assert isinstance(flow.sink, BatchTable)
    assert flow.upkeep is not None
    written = flow.sink.append(frame(range(8)), 0)
    done = flow.upkeep.after_batch(written.files, written.bytes)
    assert [(step.action, step.failure) for step in done] == [("compaction", "")]
    assert set(StateFolder(f"{bucket}/state", server.storage).read("upkeep.json") or {}) == {f"{bucket}/tables/events"}


def test_tasks_keep_schemas_of_a_registry_in_a_state_that_is_in_a_store(server: Server, bucket: str) -> None:
    registered = registered_of(a_job(bucket, server))
    assert hash(registered) == hash(registered_of(a_job(bucket, server))), (
        "by it tasks find what they have made of schemas"
    )
    there = loads(dumps(registered))
    assert there == registered
    there.kept().write("registry/1.json", {"text": "{}"})
    assert StateFolder(f"{bucket}/state", server.storage).read("registry/1.json") == {"text": "{}"}
