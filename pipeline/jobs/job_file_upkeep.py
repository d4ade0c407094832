"""The section `upkeep` of a sink: the thresholds of its table's upkeep, see upkeep.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sordini.cli.common.settings_tree import Section
from sordini.pipeline.jobs.job import SinkKind
from sordini.pipeline.jobs.row_columns import check_same_column
from sordini.pipeline.jobs.upkeep import UpkeepSettings
from sordini.pipeline.tables.clustering import COLUMNS_MAX

NEVER: Final = "never"


def upkeep_of(
    sink: Section,
    kind: SinkKind,
    options: Mapping[str, str],
    columns: Mapping[str, str] | None,
    default: UpkeepSettings,
) -> UpkeepSettings:
    """The thresholds; what the file omits is `default`'s. `columns` are those of the rows, as far as known."""
    if kind is SinkKind.KAFKA:
        if "upkeep" in sink:
            sink.wrong("upkeep", "says nothing where the sink is a topic, which the brokers clean")
        return default
    section = sink.section("upkeep")
    settings = UpkeepSettings(
        small_files_max=section.whole("small_files_max", default.small_files_max, least=0),
        cluster_by=section.texts("cluster_by") or default.cluster_by,
        versions_max=section.whole("versions_max", 0, least=0) if "versions_max" in section else default.versions_max,
        vacuum_seconds=_seconds(section, default.vacuum_seconds),
    )
    if settings.small_files_max == 1:
        section.wrong("small_files_max", "is 1: every batch would be rewritten; it is 0 (never), or 2 and more")
    if len(settings.cluster_by) > COLUMNS_MAX:
        section.wrong("cluster_by", f"names {len(settings.cluster_by)} columns: at most {COLUMNS_MAX} help readers")
    for column in settings.cluster_by if columns is not None else ():
        check_same_column(column, columns or {}, lambda problem: section.wrong("cluster_by", problem))
    section.finish()
    size = options.get("file_bytes", "")
    return replace(settings, target_bytes=int(size)) if size.isdecimal() and int(size) else settings


def _seconds(section: Section, default: float) -> float:
    if "vacuum_every" not in section:
        return default
    return 0.0 if section.text("vacuum_every") == NEVER else section.interval("vacuum_every").seconds
