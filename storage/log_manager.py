"""All logs of one broker, in one or more log directories.

`open` is synchronous, before the broker serves; `tick` does the jobs that are due at the time it gets, and one `tick`
must end before the next begins. Calls that wait for a disk go through `Disk.offload`; between awaits the set of logs
may change, so each log's state is checked again. A directory that fails goes offline alone: its logs raise
StorageError, and `on_offline` is called once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicId, TopicPartition
from sordini.storage import names
from sordini.storage.checkpoints import DamagedFile
from sordini.storage.disk import Disk, File
from sordini.storage.disk_space import DiskSpace, OnFull, OnSpace
from sordini.storage.errors import StorageError, WrongDirectory
from sordini.storage.log import Log
from sordini.storage.log_config import NEVER, LogConfig
from sordini.storage.log_dir_handle import LogDirHandle, LogEvents, Randomness
from sordini.storage.log_directory import LogDirectory
from sordini.storage.open_files import OpenFiles
from sordini.storage.removal import remove_directories, remove_files
from sordini.storage.retention import BUILT_IN, DeletePolicy, Retention

LOGS_PER_SLICE = 64
"""How many logs a job handles before the loop serves requests again."""
FLUSHES_AT_ONCE = 8
"""Twice the threads of the disk, so that no thread waits for the loop."""


class StoreConfig(NamedTuple):
    """The broker's own settings for its logs; the defaults are Apache Kafka's where it has the key."""

    open_files_max: int = 4096
    retention_check_interval_ms: int = 300_000
    recovery_checkpoint_interval_ms: int = 60_000
    log_start_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    producer_check_interval_ms: int = 600_000
    flush_check_interval_ms: int = 0
    """How often `flush.ms` is checked; at most once per `tick`."""
    delete_policies: tuple[DeletePolicy, ...] = tuple(BUILT_IN.values())


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
        self._config = config
        self._directories = [LogDirectory(LogDirHandle(disk, path, self.files, randomness)) for path in directories]
        self._cordoned: frozenset[str] = frozenset()
        self._logs: dict[TopicPartition, Log] = {}
        self._pending_delete: list[tuple[int, str]] = []
        """(when due in ms, path) of partition directories that were renamed for their deletion."""
        self._due_ms: dict[str, int] = {}
        self._ticking = False
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
                self._attempt(directory, lambda directory=directory: directory.claim(*self._identity))  # type: ignore[misc]
            for directory in self._directories:
                if directory.handle.failure is None:
                    self._attempt(directory, lambda directory=directory: directory.load(self._config_of, now_ms))  # type: ignore[misc]
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
        self._pending_delete.append((now_ms + log.config.file_delete_delay_ms, path))

    async def tick(self, now_ms: int) -> None:
        """Do the jobs that are due: to be called about once a second, never concurrently."""
        assert not self._ticking, "the last tick has not ended"
        self._ticking = True
        config = self._config
        try:
            if self._is_due("flush", config.flush_check_interval_ms, now_ms):
                await self._flush_due(now_ms)
            if self._is_due("retention", config.retention_check_interval_ms, now_ms):
                await self._each(lambda log: log.apply_retention(now_ms, log.high_watermark))
            if self._is_due("producers", config.producer_check_interval_ms, now_ms):
                await self._each(lambda log: log.expire_producers(now_ms))
            await self._remove_due(now_ms)
            self._check_disk_space(now_ms)
            if self._is_due("recovery points", config.recovery_checkpoint_interval_ms, now_ms):
                await self.checkpoint(names.RECOVERY_POINTS, LogDirectory.recovery_points)
            if self._is_due("log starts", config.log_start_checkpoint_interval_ms, now_ms) or self._starts_moved():
                await self.checkpoint(names.LOG_STARTS, LogDirectory.log_starts)
            if self._is_due("high watermarks", config.high_watermark_checkpoint_interval_ms, now_ms):
                await self.checkpoint(names.HIGH_WATERMARKS, LogDirectory.high_watermarks)
        finally:
            self._ticking = False

    async def checkpoint(self, name: str, offsets_of: Callable[[LogDirectory], dict[TopicPartition, int]]) -> None:
        """Write one checkpoint of every directory that is online, if it changed."""
        for directory in self._directories:
            if directory.handle.failure is not None:
                continue
            write = directory.writer(name, offsets_of(directory))
            if write is None:
                continue
            try:
                await self._disk.offload(write)
            except OSError as error:
                if directory.handle.fails_directory(error):
                    directory.handle.take_offline(error)

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

    def _check_disk_space(self, now_ms: int) -> None:
        for directory in self._directories:
            space = directory.handle.space
            if space.is_full and directory.handle.failure is None:
                space.check_healed(sum(log.log_end_offset for log in directory.logs.values()), now_ms)

    def _starts_moved(self) -> bool:
        """Whether a log start offset moved since the last tick. Deleted records must not be readable again after a
        `kill -9`, so the next tick writes the checkpoint; Apache Kafka waits for the checkpoint interval.
        """
        moved = [directory.handle for directory in self._directories if directory.handle.log_start_moved]
        for log_dir in moved:
            log_dir.log_start_moved = False
        return bool(moved)

    def _attempt(self, directory: LogDirectory, action: Callable[[], None]) -> None:
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
        self._pending_delete += [(now_ms + delay_ms, path) for path in directory.pending_delete]

    def _drop_empty(self, twins: tuple[Log, Log], now_ms: int) -> bool:
        """Of two logs of one partition, delete the one without records, left by a failed creation."""
        for log in twins:
            if log.log_end_offset == 0:
                directory = next(one for one in self._directories if one.handle is log.log_dir)
                directory.findings.append(
                    f"{log.directory}: is empty, and the partition is in another directory: deleted"
                )
                path = directory.delete(log.topic_partition)
                self._pending_delete.append((now_ms + log.config.file_delete_delay_ms, path))
                return True
        return False

    def _is_due(self, job: str, interval_ms: int, now_ms: int) -> bool:
        """Whether a job is due; the first time is one interval after the first tick."""
        due_ms = self._due_ms.setdefault(job, now_ms + interval_ms)
        if now_ms < due_ms:
            return False
        self._due_ms[job] = now_ms + interval_ms
        return True

    async def _each(self, action: Callable[[Log], object]) -> None:
        """Call `action` with every log that is online, and let the loop serve requests in between."""
        for number, log in enumerate(self.logs()):
            if number % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                await asyncio.sleep(0)
            if log.is_closed or log.log_dir.failure is not None:
                continue
            try:
                action(log)
            except (StorageError, BrokerError):
                # The directory is offline, which was reported, or full: the job runs again later.
                continue

    async def _flush_due(self, now_ms: int) -> None:
        """Flush the closed segments of all logs, and whole logs whose `flush.ms` has passed."""
        due: list[tuple[Log, bool]] = []
        candidates = [log for directory in self._directories for log in directory.flush_candidates()]
        for number, log in enumerate(candidates):
            if number % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                await asyncio.sleep(0)
            whole = log.config.flush_ms != NEVER and now_ms - log.last_flush_ms >= log.config.flush_ms
            if whole:
                log.last_flush_ms = now_ms
            whole = whole or log.needs_flush  # The request that had to flush has failed or was cancelled.
            if log.segments.active.base > log.recovery_point or (
                whole and (log.unflushed_messages or log.epochs.changed)
            ):
                due.append((log, whole))
        # Concurrently: one by one, thousands of partitions would exceed their `flush.ms`.
        for first in range(0, len(due), FLUSHES_AT_ONCE):
            await asyncio.gather(*(_flush(log, whole=whole) for log, whole in due[first : first + FLUSHES_AT_ONCE]))

    async def _remove_due(self, now_ms: int) -> None:
        """Remove deleted files and directories whose delay has passed."""
        handles = [directory.handle for directory in self._directories if directory.handle.failure is None]
        paths = [
            path for handle in handles for files in list(handle.with_deleted_files) for path in files.take_due(now_ms)
        ]
        directories = [path for due_ms, path in self._pending_delete if due_ms <= now_ms]
        self._pending_delete = [entry for entry in self._pending_delete if entry[0] > now_ms]
        if paths:
            await self._disk.offload(lambda: remove_files(self._disk, paths))
        for directory in self._directories:
            log_dir = directory.handle
            here = [path for path in directories if path.rpartition("/")[0] == log_dir.path]
            if here and log_dir.failure is None:
                try:
                    await self._disk.offload(lambda log_dir=log_dir, here=here: remove_directories(log_dir, here))  # type: ignore[misc]
                except OSError as error:
                    if log_dir.fails_directory(error):
                        log_dir.take_offline(error)


async def _flush(log: Log, *, whole: bool) -> None:
    """Flush a log that is online. Failures are reported by the directory, or the flush is tried again."""
    if log.is_closed or log.log_dir.failure is not None:
        return
    with contextlib.suppress(StorageError, BrokerError):
        await log.flush(rolled_only=not whole)


def _described(directory: LogDirectory, *, is_cordoned: bool) -> LogDirDescription:
    log_dir = directory.handle
    if log_dir.failure is not None:
        return LogDirDescription(log_dir.path, False, (), None, None, is_cordoned)
    space: tuple[int | None, int | None] = (None, None)
    with contextlib.suppress(OSError):
        space = log_dir.disk.space(log_dir.path)
    return LogDirDescription(log_dir.path, True, tuple(directory.logs.values()), *space, is_cordoned)
