"""All logs of one broker, in one or several log directories.

`open` is synchronous, before the broker serves; `tick` does what is due by the time it is told, and one `tick` must
have ended before the next begins. What waits for a disk goes through `Disk.offload`; between the awaits the set of
logs may change, so each log is looked at again. A directory that fails goes offline alone: its logs raise
StorageError, and `on_offline` is told once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicId, TopicPartition
from sordini.storage import flushing, names
from sordini.storage.checkpoints import DamagedFile
from sordini.storage.disk import Disk, File
from sordini.storage.disk_space import OnFull, OnRoom, Room
from sordini.storage.errors import StorageError, WrongDirectory
from sordini.storage.log import Log
from sordini.storage.log_config import NEVER, LogConfig
from sordini.storage.log_dir_handle import Home, Randomness
from sordini.storage.log_directory import LogDirectory
from sordini.storage.open_files import OpenFiles
from sordini.storage.removal import remove_directories, remove_files
from sordini.storage.retention import BUILT_IN, DeletePolicy, Retention

LOGS_PER_SLICE = 64
"""How many logs a job looks at before it lets the loop serve requests again."""
FLUSHES_AT_ONCE = 8
"""Twice the threads of the disk, so that none of them waits for the loop."""


class StoreConfig(NamedTuple):
    """The broker's own settings for its logs; the defaults are Apache Kafka's where it has the key."""

    open_files_max: int = 4096
    retention_check_interval_ms: int = 300_000
    recovery_checkpoint_interval_ms: int = 60_000
    log_start_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    producer_check_interval_ms: int = 600_000
    flush_check_interval_ms: int = 0
    """How often logs that are due to be flushed by time are looked for; no more often than `tick` is called."""
    delete_policies: tuple[DeletePolicy, ...] = tuple(BUILT_IN.values())


class Identity(NamedTuple):
    """Whose log directories these are."""

    broker_id: int
    cluster_id: str


class DirectorySurvey(NamedTuple):
    """A log directory at a glance. Bytes are those of its volume, None where the system does not tell."""

    path: str
    is_online: bool
    logs: tuple[Log, ...]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool
    """It takes no new partitions (KIP-1066)."""


class LogManager:
    """The logs by partition. `config_of` gives a partition's settings when its directory is found at the start."""

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
        """Told in words what looks wrong while the logs are kept."""
        self._disk = disk
        self._identity = identity
        self._config_of = config_of
        self._config = config
        self._directories = [LogDirectory(Home(disk, path, self.files, randomness)) for path in directories]
        self._cordoned: frozenset[str] = frozenset()
        self._logs: dict[TopicPartition, Log] = {}
        self._condemned: list[tuple[int, str]] = []
        self._due_ms: dict[str, int] = {}
        self._ticking = False
        retention = Retention(config.delete_policies, self._tell_finding)
        for directory in self._directories:
            directory.home.on_failure = self._tell_offline
            directory.home.retention = retention

    def on_cut(self, told: Callable[[File, int], object]) -> None:
        """Have `told(file, position)` called before a segment's file is cut there."""
        for directory in self._directories:
            directory.home.on_cut = told

    @property
    def online_directories(self) -> list[str]:
        return [directory.home.path for directory in self._directories if directory.home.failure is None]

    @property
    def offline_directories(self) -> list[str]:
        return [directory.home.path for directory in self._directories if directory.home.failure is not None]

    @property
    def rooms(self) -> list[Room]:
        """The room of each directory that is online."""
        return [directory.home.room for directory in self._directories if directory.home.failure is None]

    def surveys(self) -> list[DirectorySurvey]:
        """What lies in each directory, in the order in which they were given."""
        return [
            _surveyed(directory, is_cordoned=directory.home.path in self._cordoned) for directory in self._directories
        ]

    def logs(self) -> list[Log]:
        """Every log, those of offline directories included."""
        return list(self._logs.values())

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    def open(self, now_ms: int) -> list[str]:
        """Open every log of every directory; what was mended or looks odd, for the broker's own log.

        Raises WrongDirectory when one is another's, StorageError when none is usable or one partition is in two.
        """
        try:
            for directory in self._directories:
                self._attempt(directory, lambda directory=directory: directory.claim(*self._identity))  # type: ignore[misc]
            for directory in self._directories:
                if directory.home.failure is None:
                    self._attempt(directory, lambda directory=directory: directory.load(self._config_of, now_ms))  # type: ignore[misc]
                self._adopt(directory, now_ms)
            if not self.online_directories:
                raise self._directories[0].home.failure or StorageError("log.dirs", "there is none")
        except StorageError:
            for directory in self._directories:
                directory.abandon()
            raise
        return [finding for directory in self._directories for finding in directory.findings]

    def on_room(self, full: OnFull, room: OnRoom) -> None:
        """Have `full` called when a directory has no room left, and `room` when appends succeed there again."""
        for directory in self._directories:
            directory.home.room.on_full, directory.home.room.on_room = full, room

    def cordon(self, paths: frozenset[str]) -> None:
        """From now on these directories, and no others, take no new partitions."""
        self._cordoned = paths

    async def forget_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Write down that deleted logs of these names are gone, in the disk's threads.

        `create` sees to that itself, on the loop; after this it finds nothing to do. What fails is left to it.
        """
        for directory in self._directories:
            forget = directory.forgetting(partitions)
            if forget is not None:
                with contextlib.suppress(OSError):
                    await self._disk.offload(forget)

    def create(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Make a partition's log in the directory that has the fewest; raises BrokerError or StorageError.

        A cordoned one takes it only where no other is online: what is assigned to this broker has to be somewhere.
        """
        assert partition not in self._logs, f"{partition} has a log"
        usable = [directory for directory in self._directories if directory.home.failure is None]
        if not usable:
            raise StorageError(self._directories[0].home.path, "no log directory is online")
        free = [directory for directory in usable if directory.home.path not in self._cordoned]
        directory = min(free or usable, key=lambda candidate: len(candidate.logs))
        for other in self._directories:
            if other is not directory:
                other.keep_deleted(partition)
        log = self._logs[partition] = directory.create(partition, topic_id, config)
        return log

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Delete a partition's log: at once by name, on the disk after `file_delete_delay_ms`.

        Raises BrokerError or StorageError, the log being there still.
        """
        log = self._logs[partition]
        directory = next(directory for directory in self._directories if directory.home is log.home)
        log.home.check()
        condemned = directory.delete(partition)
        del self._logs[partition]
        self._condemned.append((now_ms + log.config.file_delete_delay_ms, condemned))

    async def tick(self, now_ms: int) -> None:
        """Do the jobs that are due: call it about once a second, never twice at a time."""
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
            self._look_for_room(now_ms)
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
            if directory.home.failure is not None:
                continue
            write = directory.writer(name, offsets_of(directory))
            if write is None:
                continue
            try:
                await self._disk.offload(write)
            except OSError as error:
                if directory.home.is_condemned_by(error):
                    directory.home.fail(error)

    async def close(self, *, clean: bool = True) -> None:
        """Stop, when no tick runs and nobody uses a log any more.

        With `clean`, leave every directory so that the next start need not read it.
        A directory that fails at it stays without its marker, and the others are closed all the same.
        """
        for log in self._logs.values():
            log.is_closed = True
        for directory in self._directories:
            if not clean or directory.home.failure is not None:
                directory.abandon()
                continue
            try:
                await self._disk.offload(directory.close)
            except OSError as error:
                directory.home.fail(error)
            except StorageError:
                continue

    # Helpers, in the order in which they are called above.

    def _tell_offline(self, failure: StorageError) -> None:
        if self.on_offline is not None:
            self.on_offline(failure)

    def _tell_finding(self, finding: str) -> None:
        if self.on_finding is not None:
            self.on_finding(finding)

    def _look_for_room(self, now_ms: int) -> None:
        for directory in self._directories:
            room = directory.home.room
            if room.is_full and directory.home.failure is None:
                room.look(sum(log.log_end_offset for log in directory.logs.values()), now_ms)

    def _starts_moved(self) -> bool:
        """Whether a log's start moved since the last tick. What was deleted must not come back with a `kill -9`, so
        that is written down with the next tick; Apache Kafka waits for the checkpoint's time.
        """
        moved = [directory.home for directory in self._directories if directory.home.log_start_moved]
        for home in moved:
            home.log_start_moved = False
        return bool(moved)

    def _attempt(self, directory: LogDirectory, action: Callable[[], None]) -> None:
        try:
            action()
        except WrongDirectory:
            raise
        except (OSError, DamagedFile, StorageError) as error:
            directory.home.fail(error)

    def _adopt(self, directory: LogDirectory, now_ms: int) -> None:
        for partition, log in list(directory.logs.items()):
            other = self._logs.get(partition)
            if other is not None and not self._drop_empty((log, other), now_ms):
                raise StorageError(directory.home.path, f"{partition} is also in {other.home.path}")
            if not log.is_closed:
                self._logs[partition] = log
        delay_ms = LogConfig().file_delete_delay_ms
        self._condemned += [(now_ms + delay_ms, path) for path in directory.condemned]

    def _drop_empty(self, twins: tuple[Log, Log], now_ms: int) -> bool:
        """Of two logs of one partition delete the one without a record, left by a creation that failed."""
        for log in twins:
            if log.log_end_offset == 0:
                directory = next(one for one in self._directories if one.home is log.home)
                directory.findings.append(f"{log.directory}: holds nothing, and the partition is elsewhere: deleted")
                condemned = directory.delete(log.topic_partition)
                self._condemned.append((now_ms + log.config.file_delete_delay_ms, condemned))
                return True
        return False

    def _is_due(self, job: str, interval_ms: int, now_ms: int) -> bool:
        """Whether a job's time has come; it comes first one interval after the first tick."""
        due_ms = self._due_ms.setdefault(job, now_ms + interval_ms)
        if now_ms < due_ms:
            return False
        self._due_ms[job] = now_ms + interval_ms
        return True

    async def _each(self, action: Callable[[Log], object]) -> None:
        """Do something with every log that works, a few in a row."""
        for number, log in enumerate(self.logs()):
            if number % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                await asyncio.sleep(0)
            if log.is_closed or log.home.failure is not None:
                continue
            try:
                action(log)
            except (StorageError, BrokerError):
                # The directory is offline and told so, or full: the job comes again.
                continue

    async def _flush_due(self, now_ms: int) -> None:
        """Sync closed segments, which moves the recovery point, and whole logs whose `flush_ms` has passed."""
        due: list[tuple[Log, bool]] = []
        for number, log in enumerate(self.logs()):
            if number % LOGS_PER_SLICE == LOGS_PER_SLICE - 1:
                await asyncio.sleep(0)
            whole = log.config.flush_ms != NEVER and now_ms - log.last_flush_ms >= log.config.flush_ms
            if whole:
                log.last_flush_ms = now_ms
            whole = whole or log.needs_flush  # Whoever was to see to it could not, or is gone.
            if log.segments.active.base > log.recovery_point or (
                whole and (log.unflushed_messages or log.epochs.changed)
            ):
                due.append((log, whole))
        # Several at once: one by one, thousands of partitions would never keep their time.
        for first in range(0, len(due), FLUSHES_AT_ONCE):
            await asyncio.gather(*(_flush(log, whole=whole) for log, whole in due[first : first + FLUSHES_AT_ONCE]))

    async def _remove_due(self, now_ms: int) -> None:
        """Remove deleted files and directories whose time is up."""
        paths = [path for log in self.logs() if log.home.failure is None for path in log.take_due(now_ms)]
        directories = [path for due_ms, path in self._condemned if due_ms <= now_ms]
        self._condemned = [entry for entry in self._condemned if entry[0] > now_ms]
        if paths:
            await self._disk.offload(lambda: remove_files(self._disk, paths))
        for directory in self._directories:
            home = directory.home
            here = [path for path in directories if path.rpartition("/")[0] == home.path]
            if here and home.failure is None:
                try:
                    await self._disk.offload(lambda home=home, here=here: remove_directories(home, here))  # type: ignore[misc]
                except OSError as error:
                    if home.is_condemned_by(error):
                        home.fail(error)


async def _flush(log: Log, *, whole: bool) -> None:
    """Sync a log, if it still works; what goes wrong is told where directories fail, or comes again."""
    if log.is_closed or log.home.failure is not None:
        return
    with contextlib.suppress(StorageError, BrokerError):
        await flushing.flush(log, rolled_only=not whole)


def _surveyed(directory: LogDirectory, *, is_cordoned: bool) -> DirectorySurvey:
    home = directory.home
    if home.failure is not None:
        return DirectorySurvey(home.path, False, (), None, None, is_cordoned)
    space: tuple[int | None, int | None] = (None, None)
    with contextlib.suppress(OSError):
        space = home.disk.space(home.path)
    return DirectorySurvey(home.path, True, tuple(directory.logs.values()), *space, is_cordoned)
