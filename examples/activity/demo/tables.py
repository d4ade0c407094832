"""The run's tables, read with deltalake alone, without Spark, as any other program would."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from examples.activity.generator.sending import TOPICS
from examples.activity.report.findings import Tables
from sordini.pipeline.tables import Offsets, open_table

JOBS = Path(__file__).resolve().parents[1] / "jobs"
JOB_FILES = {topic: JOBS / f"{topic.replace('-', '_')}.yaml" for topic in TOPICS.values()}
"""Topic -> the job that keeps its events."""
AGGREGATES = JOBS / "aggregates.yaml"
"""The job that counts the events of all topics by windows."""
VISITS = JOBS / "visits.yaml"
"""The job that keeps the last page of each visit, by upserts."""

_DEAD = pa.schema(
    [
        ("reason", pa.string()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
"""What the report needs of dead letters: a topic without any has no table of them."""


def read(directory: Path, streamed: pa.Table) -> Tables:
    """All of them; `streamed` are the windows as `windows` gave them before the backfill."""
    dead = [found.select(_DEAD.names).cast(_DEAD) for found in _tables(directory, "{}_dead")]
    return Tables(
        events=_joined(_tables(directory, "{}")),
        dead_letters=pa.concat_tables(dead) if dead else _DEAD.empty_table(),
        streamed_windows=streamed,
        windows=windows(directory),
        pages=_arrow(directory, "pages"),
        visits=_arrow(directory, "visits"),
    )


def windows(directory: Path) -> pa.Table:
    """The windows of a minute, as they are now."""
    return _arrow(directory, "minutes")


def offsets(directory: Path) -> Offsets:
    """The positions of the tables of events, from their last commits."""
    reached: Offsets = {}
    for topic, job in JOB_FILES.items():
        table = open_table("delta", str(directory / "tables" / job.stem), app_id=topic)
        if (last := table.last()) is not None:
            reached |= last[1]
    return reached


def _tables(directory: Path, pattern: str) -> list[pa.Table]:
    names = [pattern.format(job.stem) for job in JOB_FILES.values()]
    return [_arrow(directory, name) for name in names if DeltaTable.is_deltatable(str(_place(directory, name)))]


def _place(directory: Path, name: str) -> Path:
    return directory / "tables" / name


def _arrow(directory: Path, name: str) -> pa.Table:
    """As deltalake's own engine reads it, which knows deletion vectors; with texts of plain Arrow's."""
    found = pa.table(DeltaTable(str(_place(directory, name))).scan())
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return found.cast(pa.schema([field.with_type(plain.get(field.type, field.type)) for field in found.schema]))


def _joined(tables: list[pa.Table]) -> pa.Table:
    """One under the other; a column that a kind does not have is null there."""
    return pa.concat_tables(tables, promote_options="default")
