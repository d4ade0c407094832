"""All logs of one broker, in one or more log directories.

`open` is synchronous, before the broker serves; `tick` does the periodic jobs of `log_jobs.py`. A directory that fails
goes offline alone: its logs raise StorageError, and `on_offline` is called once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence

from sordini.protocol.types import TopicId, TopicPartition
from sordini.storage.checkpoints import DamagedFile
from sordini.storage.disk import Disk, File
from sordini.storage.disk_space import DiskSpace, OnFull, OnSpace
from sordini.storage.errors import StorageError, WrongDirectory
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_dir_handle import LogDirHandle, LogEvents, Randomness, SegmentsDeleted
from sordini.storage.log_directory import LogDirectory
from sordini.storage.log_jobs import LogJobs
from sordini.storage.open_files import OpenFiles
from sordini.storage.removal import PendingDelete
from sordini.storage.retention import Retention
from sordini.storage.store_config import StoreConfig
from sordini.system.named_tuple import NamedTuple


class Identity(NamedTuple):
    """Whose log directories these are."""

    broker_id: int
    cluster_id: str


class LogDirDescription(NamedTuple):
    """One log directory for DescribeLogDirs. Bytes are those of its volume, None where the system does not say."""

    path: str
    is_online: bool
    logs: tuple[Log, ...]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool
    """It takes no new partitions (KIP-1066)."""


class LogManager:
    """The logs by partition. `config_of` returns the settings of a partition whose directory is found at the start."""

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[str],
        identity: Identity,
        config_of: Callable[[TopicPartition], LogConfig],
        randomness: Randomness,
        config: StoreConfig = StoreConfig(),  # noqa: B008 - a NamedTuple does not change.
    ) -> None:
        self.files = OpenFiles(disk, config.open_files_max)
        self.on_offline: Callable[[StorageError], None] | None = None
        self.on_finding: Callable[[str], None] | None = None
        """Called with a text for each oddity found while the broker runs."""
        self._disk = disk
        self._identity = identity
        self._config_of = config_of
        self._directories = [LogDirectory(LogDirHandle(disk, path, self.files, randomness)) for path in directories]
        self._cordoned: frozenset[str] = frozenset()
        self._logs: dict[TopicPartition, Log] = {}
        self._pending_delete = PendingDelete()
        self._jobs = LogJobs(disk, config, self._directories, self._logs, self._pending_delete)
        retention = Retention(config.delete_policies, self._report_finding)
        for directory in self._directories:
            directory.handle.on_failure = self._report_offline
            directory.handle.retention = retention

    def before_truncate(self, listener: Callable[[File, int], object]) -> None:
        """Call `listener(file, position)` before a segment's file is truncated there."""
        for directory in self._directories:
            directory.handle.before_truncate = listener

    def on_event(self, log_event: LogEvents) -> None:
        """Call `log_event` for each roll and each truncation of a log: "segment rolled", "log truncated"."""
        for directory in self._directories:
            directory.handle.on_event = log_event

    def on_segments_deleted(self, listener: SegmentsDeleted) -> None:
        """Call `listener(partition, segments, bytes)` after each deletion of a log's oldest segments."""
        for directory in self._directories:
            directory.handle.on_segments_deleted = listener

    @property
    def online_directories(self) -> list[str]:
        return [directory.handle.path for directory in self._directories if directory.handle.failure is None]

    @property
    def offline_directories(self) -> list[str]:
        return [directory.handle.path for directory in self._directories if directory.handle.failure is not None]

    @property
    def disk_spaces(self) -> list[DiskSpace]:
        """The free space of each directory that is online."""
        return [directory.handle.space for directory in self._directories if directory.handle.failure is None]

    def describe_log_dirs(self) -> list[LogDirDescription]:
        """Every directory and its logs, in the configured order."""
        return [
            _described(directory, is_cordoned=directory.handle.path in self._cordoned)
            for directory in self._directories
        ]

    def logs(self) -> list[Log]:
        """Every log, those of offline directories included."""
        return list(self._logs.values())

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    def open(self, now_ms: int) -> list[str]:
        """Open every log of every directory; the texts of what was repaired or is odd, for the broker's log.

        Raises WrongDirectory when a directory is another broker's, StorageError when none is usable or
        a partition is in two.
        """
        try:
            for directory in self._directories:
                self._or_offline(directory, lambda directory=directory: directory.claim(*self._identity))  # type: ignore[misc]
            for directory in self._directories:
                if directory.handle.failure is None:
                    self._or_offline(directory, lambda directory=directory: directory.load(self._config_of, now_ms))  # type: ignore[misc]
                self._adopt(directory, now_ms)
            if not self.online_directories:
                raise self._directories[0].handle.failure or StorageError("log.dirs", "no directory is configured")
        except StorageError:
            for directory in self._directories:
                directory.close_without_flush()
            raise
        return [finding for directory in self._directories for finding in directory.findings]

    def on_space(self, full: OnFull, healed: OnSpace) -> None:
        """Call `full` when a directory has no free space, and `healed` when appends succeed there again."""
        for directory in self._directories:
            directory.handle.space.on_full, directory.handle.space.on_space = full, healed

    def cordon(self, paths: frozenset[str]) -> None:
        """From now on exactly these directories take no new partitions (KIP-1066)."""
        self._cordoned = paths

    async def forget_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Remove deleted logs of these names from the checkpoints, in the disk's threads.

        `create` does the same on the loop; after this it has nothing to do. Failures are left to it.
        """
        for directory in self._directories:
            forget = directory.deletion_writer(partitions)
            if forget is not None:
                with contextlib.suppress(OSError):
                    await self._disk.offload(forget)

    def create(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Create a partition's log in the directory that has the fewest; raises BrokerError or StorageError.

        A cordoned directory is used only when no other is online: an assigned partition needs a directory.
        """
        assert partition not in self._logs, f"{partition} has a log"
        usable = [directory for directory in self._directories if directory.handle.failure is None]
        if not usable:
            raise StorageError(self._directories[0].handle.path, "no log directory is online")
        free = [directory for directory in usable if directory.handle.path not in self._cordoned]
        directory = min(free or usable, key=lambda candidate: len(candidate.logs))
        for other in self._directories:
            if other is not directory:
                other.sync_deletion(partition)
        log = self._logs[partition] = directory.create(partition, topic_id, config)
        return log

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Delete a partition's log: its directory is renamed at once and removed after `file_delete_delay_ms`.

        Raises BrokerError or StorageError; the log is then unchanged.
        """
        log = self._logs[partition]
        directory = next(directory for directory in self._directories if directory.handle is log.log_dir)
        log.log_dir.ensure_online()
        path = directory.delete(partition)
        del self._logs[partition]
        self._pending_delete.add(now_ms + log.config.file_delete_delay_ms, path)

    async def tick(self, now_ms: int) -> None:
        """Do the jobs that are due (`LogJobs`): to be called about once a second, never concurrently."""
        await self._jobs.tick(now_ms)

    async def checkpoint(self, name: str, offsets_of: Callable[[LogDirectory], dict[TopicPartition, int]]) -> None:
        """Write one checkpoint of every directory that is online, if it changed."""
        await self._jobs.checkpoint(name, offsets_of)

    async def close(self, *, clean: bool = True) -> None:
        """Close every log, when no tick runs and no log is used any more.

        With `clean`, every directory gets its clean shutdown marker, so that the next start need not read it. A
        directory that fails to close has no marker; the others are closed all the same.
        """
        for log in self._logs.values():
            log.mark_closed()
        for directory in self._directories:
            if not clean or directory.handle.failure is not None:
                directory.close_without_flush()
                continue
            try:
                await self._disk.offload(directory.close)
            except OSError as error:
                directory.handle.take_offline(error)
            except StorageError:
                continue

    # Helpers, in the order in which they are called above.

    def _report_offline(self, failure: StorageError) -> None:
        if self.on_offline is not None:
            self.on_offline(failure)

    def _report_finding(self, finding: str) -> None:
        if self.on_finding is not None:
            self.on_finding(finding)

    def _or_offline(self, directory: LogDirectory, action: Callable[[], None]) -> None:
        try:
            action()
        except WrongDirectory:
            raise
        except (OSError, DamagedFile, StorageError) as error:
            directory.handle.take_offline(error)

    def _adopt(self, directory: LogDirectory, now_ms: int) -> None:
        for partition, log in list(directory.logs.items()):
            other = self._logs.get(partition)
            if other is not None and not self._drop_empty((log, other), now_ms):
                raise StorageError(directory.handle.path, f"{partition} is also in {other.log_dir.path}")
            if not log.is_closed:
                self._logs[partition] = log
        delay_ms = LogConfig().file_delete_delay_ms
        for path in directory.pending_delete:
            self._pending_delete.add(now_ms + delay_ms, path)

    def _drop_empty(self, twins: tuple[Log, Log], now_ms: int) -> bool:
        """Of two logs of one partition, delete the one without records, left by a failed creation."""
        for log in twins:
            if log.log_end_offset == 0:
                directory = next(found for found in self._directories if found.handle is log.log_dir)
                directory.findings.append(
                    f"{log.directory}: is empty, and the partition is in another directory: deleted"
                )
                path = directory.delete(log.topic_partition)
                self._pending_delete.add(now_ms + log.config.file_delete_delay_ms, path)
                return True
        return False


def _described(directory: LogDirectory, *, is_cordoned: bool) -> LogDirDescription:
    log_dir = directory.handle
    if log_dir.failure is not None:
        return LogDirDescription(log_dir.path, False, (), None, None, is_cordoned)
    space: tuple[int | None, int | None] = (None, None)
    with contextlib.suppress(OSError):
        space = log_dir.disk.space(log_dir.path)
    return LogDirDescription(log_dir.path, True, tuple(directory.logs.values()), *space, is_cordoned)
