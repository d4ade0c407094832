"""The log directories: whether they can be used, by whom they are used, and whose data they hold.

A directory that does not exist is judged by the nearest one above it, where a broker would make it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from sordini.broker.configuration.config import Config
from sordini.broker.process import pid_file
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.doctor.sizes import binary_size
from sordini.replication.ports import Clock
from sordini.storage import checkpoints, names
from sordini.storage.disk import Disk
from sordini.system import machine

STEP: Final = "directory"
FREE_PART: Final = 20
"""Less than one in so many bytes free is little, whatever the segments need."""
SEGMENTS: Final = 2
"""The one that is written, and the next one."""
INODES_MIN: Final = 1_000
FUTURE_MS_MAX: Final = 60_000
FILES_MAX: Final = 2_000
"""Looked at for their time."""
_VOLATILE: Final = {
    "tmpfs": "with the next restart of the machine",
    "ramfs": "with the next restart of the machine",
    "overlay": "with the container, unless a volume is mounted there",
}
_NETWORK: Final = (
    *("nfs", "cifs", "smb", "9p", "ceph", "glusterfs", "afs", "lustre", "beegfs"),
    *("sshfs", "s3fs", "gcsfuse", "rclone", "davfs"),
)
"""How their types begin; of those that a process serves, behind `fuse.`: fuse.glusterfs, fuse.ceph-fuse."""


class LogDirectories:
    """What the examination of all log directories shares."""

    def __init__(self, config: Config, disk: Disk, clock: Clock, report: Report) -> None:
        self._config = config
        self._disk = disk
        self._clock = clock
        self._report = report
        self.running: int | None = None
        """The process of a broker that uses one of them; 0 in another container."""
        self.cluster_id: str | None = None
        """Of the cluster whose data they hold."""
        self._key = "log.dir" if config.log_dirs is None else "log.dirs"

    def check(self) -> None:
        """Each of them."""
        for path in self._config.log_directories:
            findings = list(self._findings(path))
            for finding, text in findings:
                self._report.found(STEP, f"{path}: {text}", finding)
            if all(finding.is_note for finding, _ in findings):
                _, free = self._disk.space(_nearest(path))
                kind = machine.file_system_of(path)
                self._report.ok(STEP, f"{path}: {binary_size(free)} free{f', {kind}' if kind else ''}")

    def _findings(self, path: str) -> Iterator[tuple[Finding, str]]:
        facts = {"key": self._key, "user": _user()}
        above = _nearest(path)
        if not self._disk.is_directory(above):
            facts["reason"] = f"{above} is a file, and a directory is needed there"
            yield Finding(Fault.DIRECTORY_REFUSED, path, facts), facts["reason"]
            return
        state, may_use = os.statvfs(above), os.access(above, os.W_OK | os.X_OK | os.R_OK)
        if state.f_flag & os.ST_RDONLY:
            yield Finding(Fault.DISK_READ_ONLY, path, facts | {"above": above}), "the file system is read-only"
        elif not may_use:
            yield Finding(Fault.DIRECTORY_PERMISSION, path, facts | {"above": above}), "may not be written"
        yield from self._space(path, above, state)
        yield from _file_system(path, facts)
        if above == os.path.abspath(path) and may_use:  # noqa: PTH100 - text, as configured.
            yield from self._contents(path, facts)

    def _space(self, path: str, above: str, state: os.statvfs_result) -> Iterator[tuple[Finding, str]]:
        total, free = self._disk.space(above)
        needed = max(SEGMENTS * self._config.log_segment_bytes, total // FREE_PART)
        few_files = state.f_files > 0 and state.f_favail < INODES_MIN
        if free >= needed and not few_files:
            return
        text = f"{state.f_favail} files" if few_files else f"{binary_size(free)} of {binary_size(total)}"
        facts = {
            "free": f"room for {text} is left" if few_files else f"{text} are free",
            "needed": binary_size(needed),
            "segment": binary_size(self._config.log_segment_bytes),
        }
        yield Finding(Fault.DISK_FULL, path, facts), facts["free"]

    def _contents(self, path: str, facts: dict[str, str]) -> Iterator[tuple[Finding, str]]:
        """What is in a directory that exists: another broker's lock, another broker's data."""
        holder = self._holder(path)
        if holder is not None:
            self.running = holder
            process = pid_file.process_text(holder)
            yield Finding(Fault.DIRECTORY_IN_USE, path, facts | {"process": process}), f"in use by {process}"
        try:
            meta = checkpoints.read_meta(self._disk, path)
        except (OSError, checkpoints.DamagedFile, checkpoints.KraftDirectory) as error:
            yield Finding(Fault.DIRECTORY_REFUSED, path, facts | {"reason": str(error)}), str(error)
            return
        if meta is not None:
            of_disk, _ = meta
            self.cluster_id = self.cluster_id or of_disk.cluster_id
            given = self._config.broker_id
            if of_disk.broker_id is not None and given >= 0 and of_disk.broker_id != given:
                more = {"given": str(given), "there": str(of_disk.broker_id)}
                text = f"broker.id={given}, and its data is of broker {of_disk.broker_id}"
                yield Finding(Fault.BROKER_ID_MISMATCH, path, facts | more), text
        yield from self._times(path)

    def _holder(self, path: str) -> int | None:
        for name in (pid_file.NAME, names.LOCK):
            try:
                holder = pid_file.holder(self._disk, f"{path}/{name}")
            except OSError:
                continue
            if holder is not None:
                return holder
        return None

    def _times(self, path: str) -> Iterator[tuple[Finding, str]]:
        """Files that were written in the future, by this machine's clock."""
        now_ms = self._clock.now_ms()
        newest_ms = max(self._modified(path), default=0)
        ahead_ms = newest_ms - now_ms
        if ahead_ms > FUTURE_MS_MAX:
            facts = {"hours": f"{ahead_ms / 3_600_000:.1f}"}
            yield Finding(Fault.CLOCK_BEHIND_DATA, path, facts), f"files from {facts['hours']} h in the future"

    def _modified(self, path: str) -> Iterator[int]:
        left = FILES_MAX
        for folder in (path, *(f"{path}/{name}" for name in sorted(self._disk.directories(path)))):
            for name in self._disk.list_directory(folder):
                if left == 0:
                    return
                left -= 1
                try:
                    yield self._disk.modified_ms(f"{folder}/{name}")
                except OSError:
                    continue  # It was deleted meanwhile.


def _file_system(path: str, facts: dict[str, str]) -> Iterator[tuple[Finding, str]]:
    kind = machine.file_system_of(_nearest(path))
    if kind in _VOLATILE:
        yield Finding(Fault.DISK_VOLATILE, path, facts | {"kind": kind, "lost": _VOLATILE[kind]}), f"on {kind}"
    elif kind is not None and kind.removeprefix("fuse.").startswith(_NETWORK):
        yield Finding(Fault.DISK_NETWORK, path, facts | {"kind": kind}), f"on {kind}"


def _nearest(path: str) -> str:
    """The path, or what exists of it."""
    path = os.path.abspath(path)  # noqa: PTH100 - text, as configured.
    while not os.path.lexists(path) and path != "/":
        path = os.path.dirname(path)  # noqa: PTH120
    return path


def _user() -> str:
    import pwd  # Late: only a fault names the user.

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
