"""Iceberg tables in catalogs that others share: what we write others read and change meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.types import StringType

from sordini.pipeline.tables import Table, open_table
from tests.outside.iceberg_rest import IcebergRestCatalog
from tests.support.frames import batch, frame

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")]


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRestCatalog]:
    with IcebergRestCatalog(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture(params=["rest", "sql"])
def properties(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A catalog's, as its users write them."""
    if request.param == "sql":
        return {"type": "sql", "uri": f"sqlite:///{tmp_path}/shared.db"}
    server: IcebergRestCatalog = request.getfixturevalue("rest")
    return {"type": "rest", "uri": server.uri}


def test_a_table_in_a_shared_catalog_is_read_and_written_by_others_between_two_batches(
    properties: dict[str, str], tmp_path: Path
) -> None:
    name = f"lake.events_{properties['type']}"
    options = {f"catalog.{key}": value for key, value in properties.items()}

    def opened(app_id: str) -> Table:
        return open_table("iceberg", str(tmp_path / "events"), app_id=app_id, table=name, **options)

    other = load_catalog("sordini", **properties)  # Tables of a SQL catalog are of the catalog of a name.
    table = opened("app")
    table.append(frame(range(8)), 0, {"t": {0: 8}})
    assert sorted(other.load_table(name).scan().to_arrow()["id"].to_pylist()) == list(range(8))

    def meanwhile() -> None:
        """Another engine appends, deletes and adds a column while a batch is staged."""
        theirs = other.load_table(name)
        theirs.append(pa.Table.from_batches([batch(range(100, 104))]))
        theirs.delete("id = 101")
        with theirs.update_schema() as change:
            change.add_column("note", StringType())

    table.append(frame(range(8, 16), meanwhile), 1, {"t": {0: 16}})
    found = other.load_table(name).scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == [*range(16), 100, 102, 103]
    assert opened("app").last() == (1, {"t": {0: 16}})
    assert opened("app").append(frame(range(8, 16)), 1, {"t": {0: 16}}).was_there
