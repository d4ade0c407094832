"""The periodic jobs on the logs of a broker: flush, retention, producer expiry, removal of deleted files, checkpoints.

`tick` does those that are due at the time it gets, and one `tick` must end before the next begins. What waits for a
disk goes through `Disk.offload`; between awaits the set of logs may change, so each log's state is checked again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition
from sordini.storage import names
from sordini.storage.disk import Disk
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.storage.log_config import NEVER
from sordini.storage.log_directory import LogDirectory
from sordini.storage.removal import PendingDelete, remove_directories, remove_files
from sordini.storage.store_config import StoreConfig

LOGS_PER_SLICE = 64
"""How many logs a job handles before the loop serves requests again."""
FLUSHES_AT_ONCE = 8
"""Twice the threads of the disk, so that no thread waits for the loop."""


class LogJobs:
    """The jobs, and when each is due."""

    def __init__(
        self,
        disk: Disk,
        config: StoreConfig,
        directories: Sequence[LogDirectory],
        logs: Mapping[TopicPartition, Log],
        pending_delete: PendingDelete,
    ) -> None:
        """`logs` and `pending_delete` are the manager's own, which change."""
        self._disk = disk
        self._config = config
        self._directories = directories
        self._logs = logs
        self._pending_delete = pending_delete
        self._due_ms: dict[str, int] = {}
        self._ticking = False

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

    def _is_due(self, job: str, interval_ms: int, now_ms: int) -> bool:
        """Whether a job is due; the first time is one interval after the first tick."""
        due_ms = self._due_ms.setdefault(job, now_ms + interval_ms)
        if now_ms < due_ms:
            return False
        self._due_ms[job] = now_ms + interval_ms
        return True

    async def _each(self, action: Callable[[Log], object]) -> None:
        """Call `action` with every log that is online, and let the loop serve requests in between."""
        for number, log in enumerate(list(self._logs.values())):
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
        directories = self._pending_delete.take_due(now_ms)
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
