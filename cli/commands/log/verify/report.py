"""The output of `sordini log verify`: text line by line, or one JSON document."""

from __future__ import annotations

from typing import Any

from sordini.cli.commands.log.verify.directory import DirectoryReport
from sordini.cli.commands.log.verify.findings import KINDS, Finding
from sordini.cli.commands.log.verify.partition import PartitionReport
from sordini.cli.commands.log.verify.repair import Repaired
from sordini.cli.common.output import size_text
from sordini.protocol.printable import counted


def partition_text(report: PartitionReport) -> str:
    """One line for the partition, and a paragraph for each finding."""
    words = [
        "DAMAGED" if report.is_damaged else "OK     ",
        report.path,
        counted(len(report.segments), "segment"),
        counted(report.total("batches"), "batch"),
        counted(report.total("records"), "record"),
        size_text(report.total("size")),
    ]
    if report.end_offset > report.start_offset:
        words.append(f"offsets {report.start_offset}-{report.end_offset - 1}")
    return "\n".join(["  ".join(words), *map(finding_text, report.findings)])


def finding_text(finding: Finding) -> str:
    """The finding and its position, its meaning, and what repair does."""
    where = finding.path.rpartition("/")[2]
    where += "" if finding.position is None else f", byte {finding.position}"
    where += "" if finding.offset is None else f", offset {finding.offset}"
    lines = [f"  {where}: {finding.kind.replace('-', ' ')}: {finding.what}", f"    Meaning: {finding.meaning}."]
    if finding.is_damage:
        lines.append(f"    Repair {finding.repair}.")
    return "\n".join(lines)


def summary_text(reports: list[DirectoryReport], loose: list[PartitionReport]) -> str:
    """The last line."""
    partitions = [*loose, *(partition for report in reports for partition in report.partitions)]
    damaged = sum(partition.is_damaged for partition in partitions)
    others = sum(finding.is_damage for report in reports for finding in report.findings)
    words = f"{counted(len(partitions), 'partition')}, {damaged or 'none'} damaged"
    return f"{words}; {counted(others, 'finding')} about the log directory itself" if others else words


def repaired_text(repaired: Repaired) -> str:
    name = repaired.path
    if not repaired.lost and not repaired.bytes_cut:
        return f"{name}: nothing was lost, offsets {repaired.start_offset} to {repaired.end_offset} (its end)"
    lost = ", ".join(f"{first}-{last}" for first, last in repaired.lost) or "none"
    return f"{name}: ends at offset {repaired.end_offset} now; {repaired.bytes_cut} bytes truncated, lost: {lost}"


def finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "file": finding.path,
        "position": finding.position,
        "offset": finding.offset,
        "what": finding.what,
        "meaning": finding.meaning,
        "repair": finding.repair if finding.is_damage else None,
        "is_damage": not KINDS[finding.kind].is_note,
    }


def partition_json(report: PartitionReport) -> dict[str, Any]:
    return {
        "directory": report.path,
        "is_damaged": report.is_damaged,
        "segments": len(report.segments),
        "batches": report.total("batches"),
        "records": report.total("records"),
        "bytes": report.total("size"),
        "start_offset": report.start_offset,
        "end_offset": report.end_offset,
        "findings": [finding_json(finding) for finding in report.findings],
    }


def repaired_json(repaired: Repaired) -> dict[str, Any]:
    return repaired._asdict() | {"lost": [{"first": first, "last": last} for first, last in repaired.lost]}
