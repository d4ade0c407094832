"""The interface that all kinds of tables implement, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sordini.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline.tables.arrow_reading import Within
    from sordini.pipeline.tables.health import TableHealth
    from sordini.pipeline.tables.upsert import Upsert

Offsets = dict[str, dict[int, int]]
"""Topic to partition to the next offset to read: everything before it is in the table."""

DAY_SECONDS = 24 * 60 * 60


class TableError(PipelineError):
    """A table cannot be opened, read or written: a wrong location, a damaged file, too many conflicting writers."""


class WrongBatch(TableError):
    """A batch contradicts the table's note of this `app_id`: the checkpoint does not belong to the table."""


class LostPosition(TableError):
    """The table has batches of this `app_id`, and their offsets were lost."""

    def __init__(self, location: str, app_id: str, batch_id: int) -> None:
        self.batch_id = batch_id
        """The last one."""
        super().__init__(
            f"batch {batch_id} of '{app_id}' is in {location}, but the table's log has lost its offsets: "
            "`sordini pipeline resume` restores the position of the job"
        )


class SchemaConflict(TableError):
    """A column of the rows has another type than in the table; only new columns can be added."""


class Written(NamedTuple):
    """The result of `append` and `upsert`. With `was_there` the batch was in the table already: the counts are 0."""

    rows: int
    """Rows that the batch added: of an upsert those of its changes that are neither late nor deletions."""
    files: int
    bytes: int
    was_there: bool
    deleted: int = 0
    """Deletions of an upsert that are not late, whether the table had a row of the key or not."""
    late: int = 0
    """Changes of an upsert that were late."""


class Compacted(NamedTuple):
    """The number of files (and bytes) that were replaced, and of those that replaced them."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


class Table(Protocol):
    """One table, written under one `app_id`. Not for several threads at once; several processes may share a table."""

    @property
    def location(self) -> str:
        """The folder or URI that `open_table` was given."""
        ...

    def append(
        self,
        frame: DataFrame,
        batch_id: int,
        offsets: Offsets | None = None,
        before_commit: Callable[[], object] | None = None,
    ) -> Written:
        """Add the rows of `frame` as batch `batch_id` (from 0) of this app_id, exactly once.

        The table is created by the first append, with the columns of `frame`; later ones may bring further columns,
        which are null in older rows, and may lack columns, which are null in their rows. `offsets` are stored with the
        batch and returned by `last`. `before_commit` is called once, when all files are staged and before the commit:
        an error raised there leaves the table unchanged.

        If this batch is the last one written under the app_id, nothing is done (`was_there`). Batch ids may have gaps.
        Raises WrongBatch if the batch is older than that, or the same with other offsets; SchemaConflict if a column
        has another type; TableError if the commit failed. After an error other than the first two the batch may or may
        not be in the table: repeating the call is right in both cases.
        """
        ...

    def upsert(
        self,
        frame: DataFrame,
        batch_id: int,
        how: Upsert,
        offsets: Offsets | None = None,
        before_commit: Callable[[], object] | None = None,
    ) -> Written:
        """Bring the changes of `frame`, at most one for each key, into the table as batch `batch_id`, exactly once.

        `upsert.py` defines keys, sequences, deletions and late changes. All else is as in `append`: the creation of
        the table, added columns, `offsets`, `before_commit`, repeated batches, and the errors. Also raises BadSetting
        if this kind of table has no upserts, the table has other keys or none, or a key or sequence cannot be one;
        TableError if one of their values is null, or a key is in the frame twice.
        """
        ...

    def last(self) -> tuple[int, Offsets] | None:
        """The last batch written under this app_id, and its offsets ({} if it had none)."""
        ...

    def schema(self) -> pa.Schema | None:
        """The columns, with partition columns; None before the table exists."""
        ...

    def files(self) -> list[str]:
        """The Parquet files of the current table, as absolute paths or URIs, sorted."""
        ...

    def read(self, spark: SparkSession, columns: Sequence[str] = (), within: Within | None = None) -> DataFrame:
        """The table as a DataFrame: these columns, or all, of the rows in a range; needs no connector's JAR."""
        ...

    def compact(self, target_bytes: int, cluster_by: Sequence[str] = ()) -> Compacted:
        """Merge small files into files of about `target_bytes`; readers see every row once.

        The rows of a new file are ordered by `cluster_by`, if it names columns (see clustering.py). May run beside
        writers: the second to commit starts over. Runs in this process, without Spark.
        """
        ...

    def small_files(self, target_bytes: int) -> int:
        """How many files `compact` would try to merge. Reads the list of all files."""
        ...

    def health(self, target_bytes: int, older_than_seconds: float = DAY_SECONDS) -> TableHealth | None:
        """Examine the table; None if there is none. Small files are those that `compact` of this target would merge."""
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows, in this process, without Spark. Raises TableError if there is no table."""
        ...

    def drop_versions(self, keep: int | None = None) -> int:
        """Remove what only versions before the newest `keep` need of the log; returns how many versions went.

        Rows do not change; earlier versions cannot be read any more. Without `keep` the kind's own default is used. A
        table whose own settings say how long versions are kept follows them.
        """
        ...

    def clean_up(self, older_than_seconds: float = DAY_SECONDS) -> list[str]:
        """Delete files left by writers that crashed before their commit; returns their paths.

        Only files that no commit names and that are older than `older_than_seconds`, which must exceed the duration of
        any batch: files of a batch in progress cannot be distinguished from abandoned ones.
        """
        ...
