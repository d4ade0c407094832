"""Where the pipeline keeps rows: Delta, Iceberg, or Parquet with a manifest; every batch is in them exactly once.

Executors stage Parquet files, the driver commits all files of a batch in one atomic step that also notes who wrote
(`app_id`), which batch, and the offsets after it. A batch that is asked for again is recognised by that note and
skipped, so whoever dies at whatever moment, a restart neither loses rows nor has them twice, for any reader.
"""

from __future__ import annotations

from sordini.pipeline.tables.table import Compacted, Offsets, Table, TableError, Written, WrongBatch
from sordini.pipeline.tables.table_factory import KINDS, open_table

__all__ = ["KINDS", "Compacted", "Offsets", "Table", "TableError", "Written", "WrongBatch", "open_table"]
