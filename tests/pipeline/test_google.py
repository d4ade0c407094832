"""Iceberg tables in Google's Cloud Storage, by an emulator; Delta tables and states need what it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from sordini.pipeline.tables import Table, Upsert, open_table
from tests.outside.google_server import BUCKET, GoogleServer
from tests.pipeline.store_writer import CHANGES, FIRST, changes
from tests.support.frames import frame

HOW = Upsert(("id",), ("at",))

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    with GoogleServer(tmp_path_factory.mktemp("google")) as server:
        yield server


def opened(google: GoogleServer, name: str, folder: Path, app_id: str = "app") -> Table:
    catalog = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{folder}/catalog.db"}
    return open_table("iceberg", f"gs://{BUCKET}/tables/{name}", app_id=app_id, storage=google.storage, **catalog)


def rows_of(google: GoogleServer, name: str, folder: Path) -> list[dict[str, int]]:
    """What pyiceberg's own reader sees."""
    properties = google.storage.pyiceberg_properties(f"gs://{BUCKET}")
    catalog = load_catalog("sordini", type="sql", uri=f"sqlite:///{folder}/catalog.db", **properties)
    return list(catalog.load_table(f"default.{name}").scan().to_arrow().to_pylist())


def test_an_iceberg_table_has_each_batch_once_by_whichever_process(google: GoogleServer, tmp_path: Path) -> None:
    table = opened(google, "events", tmp_path)
    table.append(frame(range(8)), 0, {"t": {0: 8}})
    former = opened(google, "events", tmp_path)

    def meanwhile() -> None:
        opened(google, "events", tmp_path, "other").append(frame(range(100, 104)), 0)
        former.append(frame(range(8, 16)), 1, {"t": {0: 16}})

    assert table.append(frame(range(8, 16), meanwhile), 1, {"t": {0: 16}}).was_there
    everything = [*range(16), *range(100, 104)]
    done = table.compact(1_000_000)
    assert done.files_before > done.files_after
    found = table.health(1_000_000, 0)
    assert found is not None
    assert (found.missing, len(found.orphaned)) == ((), 2), "what was staged for the batch that was there"
    assert {*found.orphaned} <= {*table.clean_up(0)}
    assert sorted(row["id"] for row in rows_of(google, "events", tmp_path)) == everything
    assert opened(google, "events", tmp_path).last() == (1, {"t": {0: 16}})


def test_an_iceberg_table_of_upserts_has_the_newest_change_of_each_key(google: GoogleServer, tmp_path: Path) -> None:
    table = opened(google, "users", tmp_path)
    table.upsert(changes(FIRST), 0, HOW, {"t": {0: 8}})
    table.upsert(changes(CHANGES), 1, HOW, {"t": {0: 16}})
    newest = {key: at for key, at in {**FIRST, **CHANGES}.items() if at is not None}
    assert {row["id"]: row["at"] for row in rows_of(google, "users", tmp_path)} == newest
