"""One log directory: its lock, whose it is, its checkpoints, and the clean-stop marker.

The marker says "trust these files unread". So it is removed, durably, before anything is changed, and written,
durably, after everything else was; and not at all when one of the logs did not close as it should.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection

from sordini.protocol.types import TopicId, TopicPartition
from sordini.storage import checkpoints, names
from sordini.storage.checkpoints import DamagedFile
from sordini.storage.clean_shutdown import close_cleanly
from sordini.storage.disk import File
from sordini.storage.epoch_cache import EpochCache
from sordini.storage.errors import WrongDirectory
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_dir_handle import Home
from sordini.storage.log_state import LogContents
from sordini.storage.producer_state import ProducerState
from sordini.storage.recovery import Opening, open_log
from sordini.storage.segment import Segment


class LogDirectory:
    """A log directory and the logs in it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.logs: dict[TopicPartition, Log] = {}
        self.condemned: list[str] = []
        """Directories of deleted partitions that an earlier process left to be removed."""
        self.findings: list[str] = []
        self._deleted: set[TopicPartition] = set()
        """What was deleted since the names in the directory were last known to be on the disk."""
        self._lock_file: File | None = None
        # The writers of checkpoints are threads; the loop writes one itself before a log is cut.
        self._writing = threading.Lock()
        self._asked = 0
        self._written: dict[str, tuple[int, dict[TopicPartition, int]]] = {}
        self._latest: dict[str, dict[TopicPartition, int]] = {}
        """What was last asked to be written, which a thread may be doing now."""
        home.save_recovery_points = self._save_recovery_points
        home.saved_recovery_point = self._saved_recovery_point

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Lock the directory and see that it is this broker's.

        Raises WrongDirectory when another process or broker has it, OSError and DamagedFile when it is unusable.
        """
        disk, path = self.home.disk, self.home.path
        disk.make_directory(path)
        try:
            self._lock_file = disk.lock(f"{path}/{names.LOCK}")
        except BlockingIOError as error:
            raise WrongDirectory(path, f"another process holds {names.LOCK}: is a broker running on it?") from error
        try:
            found = checkpoints.read_meta(disk, path)
        except DamagedFile as error:
            raise WrongDirectory(path, str(error)) from error
        if found is None:
            self._keep_name()
        meta, fields = found if found is not None else (checkpoints.Meta(None, None), {})
        if meta.broker_id not in (None, broker_id):
            raise WrongDirectory(path, f"holds the logs of broker {meta.broker_id}, this is broker {broker_id}")
        if meta.cluster_id not in (None, cluster_id):
            raise WrongDirectory(path, f"belongs to cluster {meta.cluster_id}, this broker's is {cluster_id}")
        if meta != checkpoints.Meta(broker_id, cluster_id):
            checkpoints.write_meta(disk, path, broker_id, cluster_id, fields)

    def _keep_name(self) -> None:
        """A new directory: a power failure must not take its name away, with everything below it."""
        parent = self.home.path.rstrip("/")
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            # Somebody else's directories may refuse, or live on what cannot be synced.
            with contextlib.suppress(OSError):
                self.home.disk.sync_directory(parent or "/")

    def load(self, config_of: Callable[[TopicPartition], LogConfig], now_ms: int) -> None:
        """Open every partition. Raises StorageError, OSError and DamagedFile: the directory is unusable."""
        disk, path = self.home.disk, self.home.path
        is_clean = self._take_marker()
        recovery_points = self._read_offsets(names.RECOVERY_POINTS)
        log_starts = self._read_offsets(names.LOG_STARTS)
        high_watermarks = self._read_offsets(names.HIGH_WATERMARKS)
        cleaner_offsets = self._read_cleaner_offsets()
        for name in disk.directories(path):
            directory = f"{path}/{name}"
            if names.is_condemned(name):
                self.condemned.append(directory)
                continue
            partition = names.partition_of(name)
            if partition is None:
                self.findings.append(f"{directory}: not a partition's directory, left alone")
                continue
            opening = Opening(
                partition,
                directory,
                config_of(partition),
                is_clean,
                recovery_points.get(partition, 0),
                log_starts.get(partition),
                self.findings,
                cleaner_offsets.get(partition),
            )
            log = open_log(self.home, opening, now_ms)
            if opening.config.preallocate and not is_clean:
                log.segments.active.give_back_unknown()  # What was reserved before a crash is still there.
            log.last_flush_ms = now_ms
            log.compaction.first_dirty_offset = cleaner_offsets.get(partition)
            log.high_watermark = max(min(high_watermarks.get(partition, 0), log.log_end_offset), log.log_start_offset)
            self.logs[partition] = log

    def create(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Make an empty log; raises BrokerError, also for a name that would be no directory here, or StorageError."""
        home = self.home
        directory = f"{home.path}/{names.directory_name(partition)}"
        try:
            self._forget_former(partition)
            home.disk.make_directory(directory)
            segment = Segment.create(home.files, directory, 0, 0)
            checkpoints.write_topic_id(home.disk, directory, topic_id)
        except OSError as error:
            self._unmake(directory)
            raise home.wrong(error) from error
        contents = LogContents(
            topic_id=topic_id,
            segments=[segment],
            producers=ProducerState(),
            epochs=EpochCache(),
            log_start_offset=0,
            log_end_offset=0,
            recovery_point=0,
            is_new=True,
            names_are_synced=False,
        )
        log = self.logs[partition] = Log(partition, directory, home, config, contents)
        log.reserve()
        return log

    def delete(self, partition: TopicPartition) -> str:
        """Give up a log's files and name; the directory to be removed later. Raises BrokerError or StorageError."""
        log = self.logs[partition]
        condemned = f"{self.home.path}/{names.condemned_name(partition, self.home.randomness.getrandbits(128))}"
        try:
            self.home.disk.rename(log.directory, condemned)
        except OSError as error:
            raise self.home.wrong(error) from error
        self._deleted.add(partition)
        del self.logs[partition]
        log.abandon()
        return condemned

    def keep_deleted(self, partition: TopicPartition) -> None:
        """Before a log of that name is made in another directory: a power failure must not bring this one's back.

        Raises BrokerError or StorageError.
        """
        if partition in self._deleted and self.home.failure is None:
            try:
                self.home.disk.sync_directory(self.home.path)
            except OSError as error:
                raise self.home.wrong(error) from error
            self._deleted.clear()

    # Checkpoints.

    def recovery_points(self) -> dict[TopicPartition, int]:
        return {partition: _recovery_point(log) for partition, log in self.logs.items()}

    def log_starts(self) -> dict[TopicPartition, int]:
        """Only of logs that start later than their first segment: the others' start is that segment's name, once the
        segments before it are known to be gone.
        """
        return {
            partition: log.log_start_offset
            for partition, log in self.logs.items()
            if log.log_start_offset > (0 if log.segments.names_changed else log.segments.all()[0].base)
        }

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {partition: log.high_watermark for partition, log in self.logs.items()}

    def cleaner_offsets(self) -> dict[TopicPartition, int]:
        """First dirty offsets, of logs that were compacted."""
        found = {partition: log.compaction.first_dirty_offset for partition, log in self.logs.items()}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def writer(self, name: str, offsets: dict[TopicPartition, int]) -> Callable[[], None] | None:
        """What writes a checkpoint, for a thread to call; None when the file says so already. It raises OSError."""
        self._asked += 1
        asked = self._asked
        if name in self._written and self._written[name][1] == offsets == self._latest.get(name, offsets):
            return None
        if name == names.CLEANER_OFFSETS and not offsets and name not in self._written:
            return None  # Where nothing is compacted the file need not be.

        self._latest[name] = offsets

        def write() -> None:
            with self._writing:
                # A later one was faster: this one would put the past over it.
                if name not in self._written or self._written[name][0] < asked:
                    checkpoints.write_offsets(self.home.disk, self.home.path, name, offsets)
                    self._written[name] = (asked, offsets)

        return write

    def close(self) -> None:
        """Stop as after a clean stop: every log, the checkpoints, the marker. Slow; raises OSError and StorageError.

        The marker is only written when all went well.
        """
        try:
            self.home.check()
            close_cleanly(self.home.disk, list(self.logs.values()))
            for name, offsets in (
                (names.RECOVERY_POINTS, self.recovery_points()),
                (names.LOG_STARTS, self.log_starts()),
                (names.HIGH_WATERMARKS, self.high_watermarks()),
                (names.CLEANER_OFFSETS, self.cleaner_offsets()),
            ):
                write = self.writer(name, offsets)
                if write is not None:
                    write()
            disk, path = self.home.disk, self.home.path
            marker = disk.open(f"{path}/{names.CLEAN_MARKER}", create=True)
            try:
                marker.sync()
            finally:
                marker.close()
            disk.sync_directory(path)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of everything as it is, the lock last."""
        for log in self.logs.values():
            log.abandon()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def _unmake(self, directory: str) -> None:
        """Remove what a creation that failed has left: the next start would take it for a partition."""
        disk = self.home.disk
        with contextlib.suppress(OSError):
            for name in disk.list_directory(directory):
                disk.remove(f"{directory}/{name}")
            disk.remove_directory(directory)

    def _take_marker(self) -> bool:
        disk, path = self.home.disk, self.home.path
        marker = f"{path}/{names.CLEAN_MARKER}"
        is_clean = disk.exists(marker)
        if is_clean:
            disk.remove(marker)
        # A marker that came back after a power failure would vouch for what was written since. A start that died may
        # have removed it before.
        disk.sync_directory(path)
        return is_clean

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        offsets = checkpoints.read_offsets(self.home.disk, self.home.path, name)
        if self.home.disk.exists(f"{self.home.path}/{name}"):
            self._written[name] = (0, offsets)
        return offsets

    def _read_cleaner_offsets(self) -> dict[TopicPartition, int]:
        """Nothing hangs on them but work: a damaged file is told of, and all is cleaned anew."""
        try:
            return self._read_offsets(names.CLEANER_OFFSETS)
        except DamagedFile as error:
            self.findings.append(f"{error}: compacted logs are cleaned from their start")
            # Apache Kafka would give the directory up for it.
            checkpoints.write_offsets(self.home.disk, self.home.path, names.CLEANER_OFFSETS, {})
            return self._read_offsets(names.CLEANER_OFFSETS)

    def _saved_recovery_point(self, partition: TopicPartition) -> int:
        written = self._written.get(names.RECOVERY_POINTS, (0, {}))[1]
        return max(offsets.get(partition, 0) for offsets in (written, self._latest.get(names.RECOVERY_POINTS, {})))

    def _save_recovery_points(self) -> None:
        write = self.writer(names.RECOVERY_POINTS, self.recovery_points())
        if write is not None:
            write()

    def forgetting(self, partitions: Collection[TopicPartition]) -> Callable[[], None] | None:
        """What takes deleted logs' names and offsets away for good, for a thread to call; None when nothing is left.

        It raises OSError.
        """
        if self.home.failure is not None:
            return None
        writes = self._former_writers(partitions)
        deleted = set(self._deleted) if not self._deleted.isdisjoint(partitions) else set()
        if not writes and not deleted:
            return None

        def forget() -> None:
            for write in writes:
                write()
            if deleted:
                self.home.disk.sync_directory(self.home.path)
                self._deleted.difference_update(deleted)

        return forget

    def _former_writers(self, partitions: Collection[TopicPartition]) -> list[Callable[[], None]]:
        """What writes the checkpoints anew in which these partitions still are, without those that have no log."""
        writers = [
            self.writer(name, offsets_of())
            for name, offsets_of in (
                (names.RECOVERY_POINTS, self.recovery_points),
                (names.LOG_STARTS, self.log_starts),
                (names.HIGH_WATERMARKS, self.high_watermarks),
                (names.CLEANER_OFFSETS, self.cleaner_offsets),
            )
            if not self._written.get(name, (0, {}))[1].keys().isdisjoint(partitions)
        ]
        return [write for write in writers if write is not None]

    def _forget_former(self, partition: TopicPartition) -> None:
        """Take a deleted log's offsets out of the checkpoints before a new one has its name. Raises OSError."""
        for write in self._former_writers([partition]):
            write()


def _recovery_point(log: Log) -> int:
    """What may be written down: inside the active segment while it is written to, as its indexes are not synced."""
    if log.is_closed:
        return log.recovery_point
    return min(log.recovery_point, max(log.segments.active.base, log.log_end_offset - 1))
