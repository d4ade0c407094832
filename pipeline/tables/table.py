"""What all kinds of tables have in common: the interface that jobs use, and what can go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sordini.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Offsets = dict[str, dict[int, int]]
"""Topic to partition to the next offset to read: everything before it is in the table."""

DAY_SECONDS = 24 * 60 * 60


class TableError(PipelineError):
    """A table cannot be opened, read or written as asked: a wrong location, damaged notes, no writer got through."""


class WrongBatch(TableError):
    """A batch that contradicts what the table knows of this `app_id`: not the checkpoint that belongs to it."""


class LostPosition(TableError):
    """The table has batches of this `app_id`, and what it noted of their offsets is gone."""

    def __init__(self, location: str, app_id: str, batch_id: int) -> None:
        self.batch_id = batch_id
        """The last one."""
        super().__init__(
            f"batch {batch_id} of '{app_id}' is in {location}, but the table's log has its offsets no more: "
            "`sordini pipeline resume` notes from where the job goes on"
        )


class SchemaConflict(TableError):
    """The rows have a column of another type than the table; only added columns are taken up."""


class Written(NamedTuple):
    """What `append` did. Of a batch that was there already (`was_there`) it wrote nothing: the counts are 0."""

    rows: int
    files: int
    bytes: int
    was_there: bool


class Compacted(NamedTuple):
    """How many files (and bytes) of the table were replaced, and by how many."""

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
        which older rows have as null, and may lack columns, which are null in their rows. `offsets` are kept with the
        batch and come back from `last`. `before_commit` is called once, when the frame has been run and before anything
        of it is in the table: what it raises leaves the table as it is.

        Is this batch the last one written under the app_id, nothing is done (`was_there`). Batch ids may leave gaps.
        Raises WrongBatch where the batch is older than that, or the same with other offsets; SchemaConflict where a
        column has changed its type; TableError where the commit did not get through. After an error other than these
        two the batch may or may not be in the table: repeating the call is right in both cases.
        """
        ...

    def last(self) -> tuple[int, Offsets] | None:
        """The batch last written under this app_id, and the offsets given with it ({} where none were)."""
        ...

    def schema(self) -> pa.Schema | None:
        """The columns with those of the partitions; None as long as there is no table."""
        ...

    def files(self) -> list[str]:
        """The Parquet files that are the table now, as absolute paths or URIs, sorted."""
        ...

    def read(self, spark: SparkSession) -> DataFrame:
        """The table as Spark sees it, with the columns of the partitions; no connector's JAR is needed."""
        ...

    def compact(self, target_bytes: int) -> Compacted:
        """Put small files together into files of about `target_bytes`; rows stay as they are, none is seen twice.

        May run beside writers: whichever commits second looks again. Runs in this process, without Spark.
        """
        ...

    def clean_up(self, older_than_seconds: float = DAY_SECONDS) -> list[str]:
        """Delete files that writers left who died before their commit; returns their paths.

        Only files that no commit names and that are older than `older_than_seconds`, which must be longer than any
        batch takes: a batch that is still being staged looks no different from one that was given up.
        """
        ...
