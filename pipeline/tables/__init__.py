"""Tables of the pipeline: Delta or Iceberg; every batch is written exactly once.

Executors stage Parquet files; the driver commits all files of a batch in one atomic step that also notes the writer
(`app_id`), the batch, and the offsets after it. A repeated batch is recognised by that note and skipped: after a crash
at any moment a restart neither loses nor duplicates rows, for any reader. A batch is appended, or upserted by keys
(`upsert.py`).
"""

from __future__ import annotations

from sordini.pipeline.tables.table import Compacted, Offsets, Table, TableError, Written, WrongBatch
from sordini.pipeline.tables.table_factory import KINDS, open_table
from sordini.pipeline.tables.upsert import Upsert

__all__ = ["KINDS", "Compacted", "Offsets", "Table", "TableError", "Upsert", "Written", "WrongBatch", "open_table"]
