"""Tables of the pipeline: Delta, Iceberg, or Parquet with a manifest; every batch is written exactly once.

Executors stage Parquet files; the driver commits all files of a batch in one atomic step that also notes the writer
(`app_id`), the batch, and the offsets after it. A repeated batch is recognised by that note and skipped: after a crash
at any moment a restart neither loses nor duplicates rows, for any reader.
"""

from __future__ import annotations

from sordini.pipeline.tables.table import Compacted, Offsets, Table, TableError, Written, WrongBatch
from sordini.pipeline.tables.table_factory import KINDS, open_table

__all__ = ["KINDS", "Compacted", "Offsets", "Table", "TableError", "Written", "WrongBatch", "open_table"]
