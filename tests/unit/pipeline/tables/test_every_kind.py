"""What every kind of table promises, on frames without Spark and with readers that know nothing of us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables import Table, Written, WrongBatch, open_table
from sordini.pipeline.tables.table import SchemaConflict
from tests.support.frames import KINDS, frame, plain_ids, plain_rows

Opener = Callable[..., Table]

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "events")


@pytest.fixture
def opened(kind: str, location: str) -> Opener:
    def opener(app_id: str = "app", partition_by: tuple[str, ...] = (), **options: str) -> Table:
        return open_table(kind, location, app_id=app_id, partition_by=partition_by, **options)

    return opener


def test_a_table_that_is_not_there_yet_is_empty_and_opening_it_makes_nothing(opened: Opener, location: str) -> None:
    table = opened()
    assert (table.last(), table.files(), table.schema(), table.compact(1000)) == (None, [], None, (0, 0, 0, 0))
    assert table.clean_up(0) == []
    assert not Path(location).exists()


def test_rows_are_read_back_by_plain_readers_with_all_columns(opened: Opener, kind: str, location: str) -> None:
    written = opened().append(frame(range(10)), 0, {"t": {0: 10}})
    assert (written.rows, written.files, written.was_there) == (10, 2, False)
    assert written.bytes == sum(Path(path).stat().st_size for path in opened().files())
    rows = sorted(plain_rows(kind, location).to_pylist(), key=lambda row: row["id"])
    expected = [row for task in frame(range(10)).tasks for batch in task for row in batch.to_pylist()]
    assert rows == expected


def test_a_batch_that_is_repeated_is_skipped_also_by_a_new_process_s_table(
    opened: Opener, kind: str, location: str
) -> None:
    opened().append(frame(range(10)), 4, {"t": {0: 10}})
    assert opened().append(frame(range(10)), 4, {"t": {0: 10}}) == Written(0, 0, 0, was_there=True)
    assert plain_ids(kind, location) == list(range(10))


def test_the_last_batch_and_its_offsets_come_back(opened: Opener) -> None:
    table = opened()
    table.append(frame(range(4)), 0, {"t": {0: 2, 1: 2}})
    table.append(frame(range(4, 8)), 5, {"t": {0: 4, 1: 4}, "u": {7: 1}})
    assert table.last() == opened().last() == (5, {"t": {0: 4, 1: 4}, "u": {7: 1}})


def test_writers_of_one_table_are_distinguished(opened: Opener, kind: str, location: str) -> None:
    first, second = opened("first"), opened("second")
    first.append(frame(range(4)), 3, {"t": {0: 4}})
    second.append(frame(range(4, 8)), 3, {"u": {0: 4}})
    first.append(frame(range(8, 10)), 4)
    assert first.last() == (4, {})
    assert second.last() == (3, {"u": {0: 4}})
    assert plain_ids(kind, location) == list(range(10))


def test_an_older_batch_and_one_with_other_offsets_come_from_another_checkpoint(opened: Opener) -> None:
    table = opened()
    table.append(frame(range(4)), 7, {"t": {0: 4}})
    with pytest.raises(WrongBatch, match="batch 6 of 'app' is older than batch 7"):
        table.append(frame(range(4)), 6, {"t": {0: 4}})
    with pytest.raises(WrongBatch, match=r"other offsets \(t-0: 4, now t-0: 9\)"):
        table.append(frame(range(4)), 7, {"t": {0: 9}})


def test_an_empty_batch_is_noted(opened: Opener, kind: str, location: str) -> None:
    table = opened()
    table.append(frame([]), 0, {"t": {0: 0}})
    assert table.last() == (0, {"t": {0: 0}})
    table.append(frame(range(2)), 1, {"t": {0: 2}})
    assert table.append(frame([]), 2, {"t": {0: 3}}) == Written(0, 0, 0, was_there=False)
    assert (table.last(), plain_ids(kind, location)) == ((2, {"t": {0: 3}}), [0, 1])


def test_what_comes_before_a_commit_happens_once_and_stops_it_when_it_fails(
    opened: Opener, kind: str, location: str
) -> None:
    opened().append(frame(range(2)), 0, {"t": {0: 2}})
    seen: list[list[int]] = []

    def look() -> None:
        seen.append(plain_ids(kind, location))

    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        opened().append(frame(range(2, 4)), 1, {"t": {0: 4}}, fail)
    assert (plain_ids(kind, location), opened().last()) == ([0, 1], (0, {"t": {0: 2}}))
    opened().append(frame(range(2, 4)), 1, {"t": {0: 4}}, look)
    opened().append(frame(range(2, 4)), 1, {"t": {0: 4}}, look)
    assert (seen, plain_ids(kind, location)) == ([[0, 1]], [0, 1, 2, 3])


def test_an_added_column_is_null_in_older_rows_and_a_missing_one_in_newer(
    opened: Opener, kind: str, location: str
) -> None:
    opened().append(frame(range(2)), 0)
    opened().append(frame(range(2, 4), extra="x"), 1)
    opened().append(frame(range(4, 6)), 2)
    table = opened()
    schema = table.schema()
    assert schema is not None
    assert schema.names == ["id", "value", "time", "site", "extra"]
    rows = sorted(plain_rows(kind, location).to_pylist(), key=lambda row: row["id"])
    assert [row["extra"] for row in rows] == [None, None, "x", "x", None, None]


def test_a_column_of_another_type_is_refused_and_nothing_is_written(opened: Opener, kind: str, location: str) -> None:
    opened().append(frame(range(2), extra=1), 0)
    with pytest.raises(SchemaConflict, match="column 'extra' is string in the rows and int64 in the table"):
        opened().append(frame(range(2, 4), extra="x"), 1)
    assert (plain_ids(kind, location), opened().last()) == ([0, 1], (0, {}))


def test_partitions_are_read_back_whatever_their_values(opened: Opener, kind: str, location: str) -> None:
    table = opened(partition_by=("site", "flag"))
    table.append(frame(range(9), flag=True), 0)
    rows = plain_rows(kind, location).to_pylist()
    expected = {0: None, 1: "plain", 2: "a b/ü%"}
    assert {row["id"]: row["site"] for row in rows} == {each: expected[each % 3] for each in range(9)}
    assert {str(row["flag"]).lower() for row in rows} == {"true"}
    with pytest.raises(BadSetting, match="partitioned by site, flag, not by id"):
        opened(partition_by=("id",)).append(frame(range(9, 12), flag=True), 1)
    opened().append(frame(range(9, 12), flag=True), 1)
    assert plain_ids(kind, location) == list(range(12))


def test_a_partition_must_be_a_column_of_a_type_whose_text_all_readers_know(opened: Opener) -> None:
    with pytest.raises(BadSetting, match="'day', which is no column"):
        opened(partition_by=("day",)).append(frame(range(2)), 0)
    with pytest.raises(BadSetting, match=r"'time', which is timestamp\[us, tz=UTC\]"):
        opened(partition_by=("time",)).append(frame(range(2)), 0)


def test_small_files_are_put_together_and_every_row_stays_once(opened: Opener, kind: str, location: str) -> None:
    table = opened(partition_by=("site",))
    for number in range(4):
        table.append(frame(range(number * 6, number * 6 + 6)), number, {"t": {0: number}})
    before = plain_rows(kind, location).sort_by("id").select(["id", "value", "time", "site"])
    assert len(table.files()) == 4 * 2 * 3
    done = table.compact(1_000_000)
    assert (done.files_before, done.files_after, len(table.files())) == (24, 3, 3)
    assert done.bytes_after == sum(Path(path).stat().st_size for path in table.files())
    after = plain_rows(kind, location).sort_by("id").select(["id", "value", "time", "site"])
    assert after.to_pylist() == before.to_pylist()
    assert table.compact(1_000_000).files_before == 0
    assert opened().last() == (3, {"t": {0: 3}})
    assert opened().append(frame(range(18, 24)), 3, {"t": {0: 3}}).was_there
    opened().append(frame(range(24, 30)), 4)
    assert plain_ids(kind, location) == list(range(30))


def test_compaction_takes_up_columns_that_came_later(opened: Opener, kind: str, location: str) -> None:
    table = opened()
    table.append(frame(range(2)), 0)
    table.append(frame(range(2, 4), extra="x"), 1)
    assert table.compact(1_000_000).files_after == 1
    rows = sorted(plain_rows(kind, location).to_pylist(), key=lambda row: row["id"])
    assert [row["extra"] for row in rows] == [None, None, "x", "x"]


def test_two_processes_with_one_app_id_write_a_batch_once(opened: Opener, kind: str, location: str) -> None:
    opened().append(frame(range(4)), 0)

    def overtake() -> None:
        assert not opened().append(frame(range(4, 8)), 1, {"t": {0: 8}}).was_there

    slow = opened()
    assert slow.append(frame(range(4, 8), meanwhile=overtake), 1, {"t": {0: 8}}).was_there
    assert plain_ids(kind, location) == list(range(8))


@pytest.mark.parametrize("others", [{}, {"extra": 1}])
def test_one_of_two_processes_writes_a_batch_that_adds_a_column(
    others: dict[str, int], opened: Opener, kind: str, location: str
) -> None:
    opened().append(frame(range(4)), 0)

    def overtake() -> None:
        assert not opened().append(frame(range(4, 8), **others), 1, {"t": {0: 8}}).was_there

    slow = opened()
    assert slow.append(frame(range(4, 8), overtake, other=1), 1, {"t": {0: 8}}).was_there
    assert plain_ids(kind, location) == list(range(8))


def test_two_processes_that_create_one_table_both_get_their_rows_in(opened: Opener, kind: str, location: str) -> None:
    slow, fast = opened("slow"), opened("fast")
    assert slow.append(frame(range(4, 8), meanwhile=lambda: fast.append(frame(range(4)), 0)), 0).rows == 4
    assert (slow.last(), fast.last()) == ((0, {}), (0, {}))
    assert plain_ids(kind, location) == list(range(8))


def test_columns_that_another_writer_adds_in_between_are_kept(opened: Opener, kind: str, location: str) -> None:
    opened().append(frame(range(2)), 0)
    slow, fast = opened(), opened("fast")
    slow.append(frame(range(4, 6), lambda: fast.append(frame(range(2, 4), theirs="x"), 0), ours=1), 1)
    schema = opened().schema()
    assert schema is not None
    assert set(schema.names) == {"id", "value", "time", "site", "theirs", "ours"}
    assert plain_ids(kind, location) == list(range(6))


def test_rows_that_came_while_files_were_put_together_stay(opened: Opener, kind: str, location: str) -> None:
    table, other = opened(), opened("other")
    table.append(frame(range(4)), 0)
    other.append(frame(range(4, 8), meanwhile=lambda: table.compact(1_000_000)), 0)
    assert plain_ids(kind, location) == list(range(8))


def test_files_of_a_batch_that_was_given_up_are_not_the_table_s_and_go_when_they_are_old(
    opened: Opener, kind: str, location: str
) -> None:
    table = opened()
    table.append(frame(range(4)), 0)

    def die() -> None:
        raise RuntimeError("the driver's machine is gone")

    with pytest.raises(RuntimeError, match="gone"):
        opened("dead").append(frame(range(4, 8), meanwhile=die), 0)
    assert plain_ids(kind, location) == list(range(4))
    assert table.clean_up() == []
    table.compact(1_000_000)
    assert len(table.clean_up(0)) == 2
    assert table.clean_up(0) == []
    assert plain_ids(kind, location) == list(range(4))


def test_when_a_batch_is_in_what_earlier_attempts_at_it_left_is_gone_and_nothing_else(
    opened: Opener, kind: str, location: str
) -> None:
    def die() -> None:
        raise RuntimeError("gone")

    def attempt(app_id: str, batch_id: int) -> None:
        with pytest.raises(RuntimeError, match="gone"):
            opened(app_id).append(frame(range(4, 8), meanwhile=die), batch_id)

    def staged() -> int:
        """How many files of whatever attempt there are that are not the table's."""
        named = {Path(path).name for path in opened().files()}
        return sum(path.name not in named for path in Path(location).rglob("part-*"))

    opened().append(frame(range(4)), 0)
    attempt("app", 1)
    attempt("app", 1)
    attempt("app", 2)
    attempt("other", 1)
    assert staged() == 8
    opened().append(frame(range(4, 8)), 1)
    assert staged() == 4, "those for the next batch, and another writer's, who may be at it"
    opened().append(frame(range(8, 12)), 2)
    opened("other").append(frame(range(12, 16)), 1)
    assert staged() == 0
    assert plain_ids(kind, location) == list(range(16))
    assert not [path for path in Path(location, "_sordini").rglob("*") if len(path.name) > 32], "no note is left"


def test_what_compaction_replaced_stays_for_readers_of_older_versions_when_attempts_are_tidied_up(
    opened: Opener,
) -> None:
    table = opened()
    table.append(frame(range(4)), 0)
    replaced = table.files()
    table.compact(1_000_000)
    with pytest.raises(ZeroDivisionError):
        opened().append(frame(range(4, 8), meanwhile=lambda: 1 // 0), 1)
    opened().append(frame(range(4, 8)), 1)
    assert all(Path(path).exists() for path in replaced)


def test_files_have_the_compression_and_the_size_that_were_asked_for(opened: Opener) -> None:
    import pyarrow.parquet as pq

    table = opened(compression="gzip", file_bytes="1")
    table.append(frame(range(4)), 0)
    assert {pq.ParquetFile(path).metadata.row_group(0).column(0).compression for path in table.files()} == {"GZIP"}


def test_an_unknown_option_or_kind_is_reported(opened: Opener, kind: str, location: str) -> None:
    with pytest.raises(BadSetting, match="no option colour"):
        opened(colour="red")
    with pytest.raises(BadSetting, match="compression 'rar'"):
        opened(compression="rar")
    with pytest.raises(BadSetting, match="file_bytes"):
        opened(file_bytes="0")
    with pytest.raises(BadSetting, match="app_id"):
        opened("")
    with pytest.raises(BadSetting, match="'orc' is no kind of table"):
        open_table("orc", location, app_id="app")


def test_compaction_clusters_each_new_file(opened: Opener, kind: str, location: str) -> None:
    import pyarrow.parquet as pq

    table = opened()
    for batch_id, number in enumerate((3, 1, 2, 0)):
        table.append(frame(range(number * 6, number * 6 + 6)), batch_id, {"t": {0: batch_id}})
    assert table.small_files(1_000_000) == 8
    assert table.small_files(100) == 0
    done = table.compact(1_000_000, ["id"])
    assert (done.files_before, done.files_after, table.small_files(1_000_000)) == (8, 1, 1)
    [path] = table.files()
    assert pq.ParquetFile(path).read(columns=["id"])["id"].to_pylist() == list(range(24))
    assert plain_ids(kind, location) == list(range(24))
    assert opened().last() == (3, {"t": {0: 3}})


def test_clustering_stays_within_partitions_and_takes_up_later_columns(
    opened: Opener, kind: str, location: str
) -> None:
    table = opened(partition_by=("site",))
    table.append(frame(range(9)), 0)
    table.append(frame(range(9, 18), extra="x"), 1)
    before = plain_rows(kind, location).sort_by("id").to_pylist()
    assert table.compact(1_000_000, ["time", "id"]).files_after == 3
    assert plain_rows(kind, location).sort_by("id").to_pylist() == before
    assert table.compact(1_000_000, ["time", "id"]).files_before == 0


def test_rows_that_came_while_files_were_clustered_stay(opened: Opener, kind: str, location: str) -> None:
    table, other = opened(), opened("other")
    table.append(frame(range(4)), 0)
    other.append(frame(range(4, 8), meanwhile=lambda: table.compact(1_000_000, ["id"])), 0)
    assert plain_ids(kind, location) == list(range(8))


def test_dropping_old_versions_keeps_rows_positions_and_the_newest_versions(
    opened: Opener, kind: str, location: str
) -> None:
    table = opened()
    for number in range(24):
        table.append(frame([number, number + 100]), number, {"t": {0: number}})
    opened("other").append(frame([900, 901]), 3, {"u": {0: 1}})
    assert table.drop_versions(3) >= 19
    assert table.drop_versions(3) == 0
    assert (opened().last(), opened("other").last()) == ((23, {"t": {0: 23}}), (3, {"u": {0: 1}}))
    assert plain_ids(kind, location) == sorted([*range(24), *range(100, 124), 900, 901])
    assert table.append(frame([23, 123]), 23, {"t": {0: 23}}).was_there
    table.append(frame([24, 124]), 24, {"t": {0: 24}})
    assert len(plain_ids(kind, location)) == 52
    if kind == "delta":
        from deltalake import DeltaTable

        assert DeltaTable(location, version=22).to_pyarrow_table().num_rows == 46
