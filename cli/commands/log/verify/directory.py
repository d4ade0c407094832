"""Verifies a log directory: its own small files, then each partition; or the directory of one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from sordini.admin.failure import Failure
from sordini.cli.commands.log.verify.findings import Finding
from sordini.cli.commands.log.verify.partition import PartitionCheck, PartitionContext, PartitionReport
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_text
from sordini.storage import names
from sordini.storage.checkpoints import DamagedFile, read_meta, read_offsets
from sordini.storage.disk import Disk

CHECKPOINTS: Final = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_OFFSETS)
FORMER_SUFFIXES: Final = ("-delete", "-future", "-stray")


@dataclass
class DirectoryReport:
    """The findings of one log directory, and the reports of its partitions."""

    path: str
    broker_id: int | None = None
    findings: list[Finding] = field(default_factory=list)
    partitions: list[PartitionReport] = field(default_factory=list)

    def all_findings(self) -> Iterator[Finding]:
        yield from self.findings
        for partition in self.partitions:
            yield from partition.findings

    @property
    def is_damaged(self) -> bool:
        return any(finding.is_damage for finding in self.all_findings())


class DirectoryCheck:
    """Checks one log directory, one partition at a time, so that the output shows progress."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.report = DirectoryReport(path)
        self._is_clean = disk.exists(f"{path}/{names.CLEAN_MARKER}")
        self._offsets = {name: self._read(name) for name in CHECKPOINTS}
        self._names = disk.directories(path)

    @property
    def partitions(self) -> list[str]:
        """The names of the partitions' directories."""
        return [name for name in self._names if names.partition_of(name) is not None]

    def context_of(self, name: str) -> PartitionContext:
        """What the checkpoints say of the partition in a directory of this name."""
        partition = names.partition_of(name)
        if partition is None:
            return PartitionContext(self._is_clean)
        return PartitionContext(
            is_clean=self._is_clean,
            log_start=self._offsets[names.LOG_STARTS].get(partition),
            high_watermark=self._offsets[names.HIGH_WATERMARKS].get(partition),
            recovery_point=self._offsets[names.RECOVERY_POINTS].get(partition),
            # Internal topics are always compacted.
            is_compacted=partition in self._offsets[names.CLEANER_OFFSETS] or partition.topic.startswith("__"),
        )

    def check_own_files(self) -> None:
        """Check everything that is not in a partition's directory."""
        find = self.report.findings.append
        path = self.path
        try:
            found = read_meta(self._disk, path)
            if found is None:
                find(Finding("meta-missing", f"{path}/{names.META_PROPERTIES}", "there is no such file"))
            else:
                self.report.broker_id = found[0].broker_id
        except DamagedFile as error:
            find(Finding("meta-damaged", f"{path}/{names.META_PROPERTIES}", str(error).removeprefix(f"{path}/"), 0))
        for name in self._names:
            if names.partition_of(name) is not None:
                continue
            if name.endswith(FORMER_SUFFIXES):
                find(
                    Finding("other-directory", f"{path}/{name}", f"a partition with suffix -{name.rpartition('-')[2]}")
                )
            else:
                find(Finding("stray-directory", f"{path}/{name}", "its name is not <topic>-<partition>"))
        known = set(self.partitions)
        for name, offsets in self._offsets.items():
            for partition in offsets:
                if str(partition) not in known:
                    find(Finding("entry-without-partition", f"{path}/{name}", f"{partition} is not in this directory"))

    def partition(self, name: str) -> PartitionReport:
        """Check one of the partitions. Raises OSError."""
        context = self.context_of(name)
        report = PartitionCheck(self._disk, f"{self.path}/{name}", context).run()
        report.findings += self._compare_checkpoints(report, context)
        self.report.partitions.append(report)
        return report

    def _compare_checkpoints(self, report: PartitionReport, context: PartitionContext) -> Iterator[Finding]:
        """Checkpoint entries that contradict the partition's log."""

        def finding(kind: str, name: str, offset: int, explanation: str) -> Finding:
            return Finding(
                kind, f"{self.path}/{name}", f"{report.path.rpartition('/')[2]}: {explanation}", None, offset
            )

        end = report.end_offset
        start = report.segments[0].base if report.segments else 0
        if context.high_watermark is not None and context.high_watermark > end:
            what = f"the checkpoint has {context.high_watermark}, and the log ends at {end}"
            yield finding("high-watermark-beyond", names.HIGH_WATERMARKS, context.high_watermark, what)
        if context.recovery_point is not None and context.recovery_point > end:
            what = f"the checkpoint has {context.recovery_point}, and the log ends at {end}"
            yield finding("recovery-point-beyond", names.RECOVERY_POINTS, context.recovery_point, what)
        if context.log_start is not None and context.log_start > end:
            what = f"the checkpoint has {context.log_start}, and the log ends at {end}"
            yield finding("log-start-beyond", names.LOG_STARTS, context.log_start, what)
        if context.log_start is not None and context.log_start < start:
            what = f"the checkpoint has {context.log_start}, and the first segment begins at {start}"
            yield finding("log-start-below", names.LOG_STARTS, context.log_start, what)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._disk, self.path, name)
        except DamagedFile as error:
            path = f"{self.path}/{name}"
            self.report.findings.append(Finding("checkpoint-damaged", path, str(error).removeprefix(f"{path} "), 0))
            return {}


def existing(disk: Disk, path: str) -> str:
    """The path of an existing directory, without a trailing slash. Raises Failure."""
    path = path.rstrip("/") or "/"
    if not disk.is_directory(path):
        raise Failure(f"{path}: {'this is a file; name its directory' if disk.exists(path) else 'no such directory'}")
    return path


def is_partition(disk: Disk, path: str) -> bool:
    """Whether a directory is one partition's, and not a log directory."""
    file_names = disk.list_directory(path)
    if any(name in file_names for name in (names.META_PROPERTIES, *CHECKPOINTS)) or disk.directories(path):
        return False
    is_named_so = names.partition_of(path.rstrip("/").rpartition("/")[2]) is not None
    return is_named_so or any(name.endswith(names.LOG) for name in file_names)


def findings_across(reports: Sequence[DirectoryReport]) -> Iterator[Finding]:
    """Findings across partitions: a partition in two log directories, or with another topic id.

    Log directories of different brokers may have the same partition: those are its replicas.
    """
    seen: dict[tuple[int | None, str], str] = {}
    topics: dict[str, tuple[TopicId, str]] = {}
    for report in reports:
        for found in report.partitions:
            name = found.path.rpartition("/")[2]
            other = seen.setdefault((report.broker_id, name), found.path)
            if other != found.path:
                yield Finding("duplicate-partition", found.path, f"it is also in {other}")
            partition = names.partition_of(name)
            if partition is None or found.topic_id == NO_TOPIC_ID:
                continue
            topic_id, other = topics.setdefault(partition.topic, (found.topic_id, found.path))
            if topic_id != found.topic_id:
                what = f"its topic id is {topic_id_text(found.topic_id)}, that of {other} is {topic_id_text(topic_id)}"
                yield Finding("topic-ids-differ", f"{found.path}/{names.PARTITION_METADATA}", what)
