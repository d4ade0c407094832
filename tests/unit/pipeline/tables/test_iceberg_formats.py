"""Iceberg tables of a format that is not written here, because another program has upgraded them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sordini.pipeline.tables import Table, TableError, Upsert, open_table
from tests.support.frames import frame, plain_ids

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]
HOW = Upsert(("id",))


def upgrade(location: str) -> None:
    """To version 3, which pyiceberg reads and does not make."""
    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db", warehouse=f"file://{location}")
    path = Path(catalog.load_table("default.events").metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**metadata, "format-version": 3, "next-row-id": 100}), encoding="utf-8")
    catalog.close()


def write(table: Table, number: int, *, upserts: bool, **during: Any) -> None:
    ids = range(number * 2, number * 2 + 2)
    if upserts:
        table.upsert(frame(ids, _deleted=False), number, HOW, **during)
    else:
        table.append(frame(ids), number, **during)


@pytest.mark.parametrize(
    ("upserts", "reported"), [(True, "3: upserts need version 2"), (False, "3, and pyiceberg writes up to version 2")]
)
@pytest.mark.parametrize("is_during", [False, True])
def test_a_table_that_was_upgraded_is_refused_in_one_sentence_and_keeps_its_rows(
    upserts: bool, reported: str, is_during: bool, tmp_path: Path
) -> None:
    location = str(tmp_path / "events")
    table = open_table("iceberg", location, app_id="app")
    write(table, 0, upserts=upserts)
    during = {"before_commit": lambda: upgrade(location)} if is_during else {}
    if not is_during:
        upgrade(location)
    with pytest.raises(TableError, match=f"has Iceberg's format version {reported}") as refused:
        write(table, 1, upserts=upserts, **during)
    assert "\n" not in str(refused.value)
    assert (plain_ids("iceberg", location), table.last()) == ([0, 1], (0, {}))
    with pytest.raises(TableError, match="has Iceberg's format version 3, and pyiceberg writes up to version 2"):
        table.compact(1_000_000)


def test_upserts_of_a_table_with_equality_deletes_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    location = str(tmp_path / "events")
    table = open_table("iceberg", location, app_id="app")
    write(table, 0, upserts=True)
    catalog = SqlCatalog("sordini", uri=f"sqlite:///{location}/catalog.db", warehouse=f"file://{location}")
    path = Path(catalog.load_table("default.events").metadata_location.removeprefix("file://"))
    catalog.close()
    text = path.read_text(encoding="utf-8")
    assert '"total-equality-deletes":"0"' in text
    path.write_text(text.replace('"total-equality-deletes":"0"', '"total-equality-deletes":"3"'), encoding="utf-8")
    before = sorted(Path(location).rglob("*"))
    with pytest.raises(TableError, match="has equality deletes, which pyiceberg does not read: rewrite its data files"):
        write(table, 1, upserts=True)
    assert sorted(Path(location).rglob("*")) == before
    assert table.last() == (0, {})
