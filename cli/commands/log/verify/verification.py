"""One run of `sordini log verify`: the directories in order, and the repair of a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordini.admin.failure import Failure
from sordini.cli.commands.log.verify.directory import (
    DirectoryCheck,
    DirectoryReport,
    existing,
    findings_across,
    is_partition,
)
from sordini.cli.commands.log.verify.findings import Finding
from sordini.cli.commands.log.verify.partition import PartitionReport
from sordini.cli.commands.log.verify.repair import Repaired, copy_tree, repair_directory, repair_partition, tree_size
from sordini.cli.commands.log.verify.report import (
    finding_json,
    finding_text,
    partition_json,
    partition_text,
    repaired_json,
    repaired_text,
    summary_text,
)
from sordini.storage import names
from sordini.storage.checkpoints import DamagedFile
from sordini.storage.disk import Disk
from sordini.storage.errors import StorageError

PrintLine = Callable[[str], None]


class Verification:
    """Checks directories one after the other, and prints each partition when it has been checked."""

    def __init__(self, disk: Disk, print_line: PrintLine) -> None:
        self._disk = disk
        self._print = print_line
        self.directories: list[DirectoryReport] = []
        self.loose: list[PartitionReport] = []
        self.other: list[Finding] = []

    def check_path(self, path: str) -> None:
        """Check a log directory, or the directory of one partition. Raises Failure."""
        path = existing(self._disk, path)
        try:
            if is_partition(self._disk, path):
                self._partition(path)
            else:
                self._directory(path)
        except OSError as error:
            raise Failure(f"{error.filename or path}: {(error.strerror or str(error)).lower()}") from None

    def finish(self) -> None:
        """Add the findings across directories, and print the summary."""
        self.other += findings_across(self.directories)
        for finding in self.other:
            self._print(finding_text(finding))
        self._print(summary_text(self.directories, self.loose))

    @property
    def is_damaged(self) -> bool:
        return (
            any(report.is_damaged for report in self.directories)
            or any(report.is_damaged for report in self.loose)
            or any(finding.is_damage for finding in self.other)
        )

    def as_json(self) -> dict[str, Any]:
        found = [finding for report in self.directories for finding in report.findings]
        partitions = [*self.loose, *(one for report in self.directories for one in report.partitions)]
        return {
            "is_damaged": self.is_damaged,
            "findings": [finding_json(finding) for finding in [*found, *self.other]],
            "partitions": [partition_json(partition) for partition in partitions],
        }

    def _partition(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        check = DirectoryCheck(self._disk, parent or ".")
        if is_live(self._disk, check.path):
            self._live(check.path)
        report = check.partition(name)
        # The path as it was given, even without a directory before it.
        report.path = path
        self.loose.append(report)
        self._print(partition_text(report))

    def _directory(self, path: str) -> None:
        check = DirectoryCheck(self._disk, path)
        self.directories.append(check.report)
        if is_live(self._disk, path):
            self._live(path)
        check.check_own_files()
        if check.report.findings:
            self._print("\n".join([path, *map(finding_text, check.report.findings)]))
        for name in check.partitions:
            self._print(partition_text(check.partition(name)))

    def _live(self, path: str) -> None:
        finding = Finding("live", f"{path}/{names.LOCK}", "it is locked")
        self.other.append(finding)


class RepairOfCopy:
    """Copies a verified directory and repairs the copy."""

    def __init__(self, disk: Disk, found: Verification, print_line: PrintLine) -> None:
        self._disk = disk
        self._found = found
        self._print = print_line
        self.repaired: list[Repaired] = []

    def run(self, source: str, target: str, now_ms: int) -> Verification:
        """Repair a copy of `source` in `target`; returns the verification of the copy. Raises Failure."""
        source, target = source.rstrip("/"), target.rstrip("/")
        self._refuse(source, target)
        try:
            copy_tree(self._disk, source, target)
            if self._found.loose:
                self.repaired = [repair_partition(self._disk, target, self._found.loose[0], now_ms)]
            else:
                self.repaired = repair_directory(self._disk, target, self._found.directories[0], now_ms)
        except (OSError, DamagedFile, StorageError) as error:
            raise Failure(f"the copy in {target} could not be repaired: {error}") from None
        for repaired in self.repaired:
            self._print(repaired_text(repaired))
        after = Verification(self._disk, lambda _: None)
        after.check_path(target)
        after.finish()
        self._print(f"the copy in {target} is intact" if not after.is_damaged else "the copy is still damaged:")
        if after.is_damaged:
            for partition in [*after.loose, *(one for report in after.directories for one in report.partitions)]:
                if partition.is_damaged:
                    self._print(partition_text(partition))
            for finding in [*after.other, *(one for report in after.directories for one in report.findings)]:
                self._print(finding_text(finding))
        return after

    def as_json(self, after: Verification) -> dict[str, Any]:
        return {"repaired": [repaired_json(one) for one in self.repaired], "copy": after.as_json()}

    def _refuse(self, source: str, target: str) -> None:
        disk = self._disk
        if any(finding.kind == "live" for finding in self._found.other):
            raise Failure(
                f"a broker is running on {source}: files that are being written cannot be copied; stop it first"
            )
        if f"{target}/".startswith(f"{source}/") or f"{source}/".startswith(f"{target}/"):
            raise Failure("--to must be outside of the directory")
        if disk.exists(target) and (not disk.is_directory(target) or disk.list_directory(target)):
            raise Failure(f"{target} exists already: give a directory that does not exist or is empty")
        try:
            disk.make_directory(target)
            needed, (_, left) = tree_size(disk, source), disk.space(target)
        except OSError as error:
            raise Failure(f"{source} cannot be copied to {target}: {error}") from None
        if needed > left:
            raise Failure(f"the copy needs {needed} bytes, and {left} are free where {target} is")


def is_live(disk: Disk, path: str) -> bool:
    """Whether a broker holds the lock of a log directory. Takes the lock for a moment if the file exists."""
    lock = f"{path}/{names.LOCK}"
    if not disk.exists(lock):
        return False
    try:
        disk.lock(lock).close()
    except OSError:
        return True
    return False
