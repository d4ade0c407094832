"""One log directory: its lock, its owner, its logs, its checkpoints, and the clean shutdown marker.

The marker says that the files may be trusted unread. So it is removed, durably, before anything is changed, and
written, durably, after everything else; and not at all when one of the logs failed to close.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection

from sordini.protocol.types import TopicId, TopicPartition
from sordini.storage import checkpoints, names
from sordini.storage.checkpoints import DamagedFile
from sordini.storage.clean_shutdown import close_logs_cleanly
from sordini.storage.disk import File
from sordini.storage.epoch_cache import EpochCache
from sordini.storage.errors import NameTaken, WrongDirectory
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_dir_handle import LogDirHandle
from sordini.storage.log_state import LogContents
from sordini.storage.producer_state import ProducerState
from sordini.storage.recovery import Opening, open_log
from sordini.storage.segment import Segment


class LogDirectory:
    """A log directory and the logs in it."""

    def __init__(self, log_dir: LogDirHandle) -> None:
        self.handle = log_dir
        self.logs: dict[TopicPartition, Log] = {}
        self.pending_delete: list[str] = []
        """Directories of deleted partitions that an earlier process did not remove."""
        self.findings: list[str] = []
        self._deleted: set[TopicPartition] = set()
        """Partitions deleted since the directory was last synced."""
        self._lock_file: File | None = None
        self._names_are_synced = False
        """Whether the directory was synced since it was locked."""
        # Threads write the checkpoints; the loop writes one itself before a truncation.
        self._writing = threading.Lock()
        self._requested = 0
        self._written: dict[str, tuple[int, dict[TopicPartition, int]]] = {}
        self._latest: dict[str, dict[TopicPartition, int]] = {}
        """The offsets of each checkpoint's last request, which a thread may be writing now."""
        log_dir.save_recovery_points = self._save_recovery_points
        log_dir.saved_recovery_point = self._saved_recovery_point

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Lock the directory and check that it is this broker's.

        Raises WrongDirectory when it is another process's or broker's, OSError and DamagedFile when it is unusable.
        """
        disk, path = self.handle.disk, self.handle.path
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
            self._sync_parents()
        meta, fields = found if found is not None else (checkpoints.MetaProperties(None, None), {})
        if meta.broker_id not in (None, broker_id):
            raise WrongDirectory(path, f"holds the logs of broker {meta.broker_id}, this is broker {broker_id}")
        if meta.cluster_id not in (None, cluster_id):
            raise WrongDirectory(path, f"belongs to cluster {meta.cluster_id}, this broker's is {cluster_id}")
        if meta != checkpoints.MetaProperties(broker_id, cluster_id):
            checkpoints.write_meta(disk, path, broker_id, cluster_id, fields)
            self._names_are_synced = True

    def _sync_parents(self) -> None:
        """Make a new directory's name durable, and those of its parents."""
        parent = self.handle.path.rstrip("/")
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            # Another user's directories may refuse, or be on a file system that cannot be synced.
            with contextlib.suppress(OSError):
                self.handle.disk.sync_directory(parent or "/")

    def load(self, config_of: Callable[[TopicPartition], LogConfig], now_ms: int) -> None:
        """Open every partition. Raises StorageError, OSError and DamagedFile when the directory is unusable."""
        disk, path = self.handle.disk, self.handle.path
        is_clean = self._take_marker()
        recovery_points = self._read_offsets(names.RECOVERY_POINTS)
        log_starts = self._read_offsets(names.LOG_STARTS)
        high_watermarks = self._read_offsets(names.HIGH_WATERMARKS)
        cleaner_offsets = self._read_cleaner_offsets()
        for name in disk.directories(path):
            directory = f"{path}/{name}"
            if names.is_pending_delete(name):
                self.pending_delete.append(directory)
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
            log = open_log(self.handle, opening, now_ms)
            if opening.config.preallocate and not is_clean:
                log.segments.active.give_back_unknown()  # Space reserved before a crash is still reserved.
            log.last_flush_ms = now_ms
            log.compaction.first_dirty_offset = cleaner_offsets.get(partition)
            log.high_watermark = max(min(high_watermarks.get(partition, 0), log.log_end_offset), log.log_start_offset)
            self.logs[partition] = log

    def create(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Create an empty log; raises BrokerError, also for an invalid partition name, or StorageError."""
        log_dir = self.handle
        directory = f"{log_dir.path}/{names.directory_name(partition)}"
        self._refuse_taken_name(directory)
        try:
            self._forget_deleted(partition)
            log_dir.disk.make_directory(directory)
            segment = Segment.create(log_dir.files, directory, 0, 0)
            checkpoints.write_topic_id(log_dir.disk, directory, topic_id)
        except OSError as error:
            self._remove_partial(directory)
            raise log_dir.classify(error) from error
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
        log = self.logs[partition] = Log(partition, directory, log_dir, config, contents)
        log.reserve()
        return log

    def _refuse_taken_name(self, directory: str) -> None:
        """Raise NameTaken where `orders-0` is the directory of `Orders-0`: it would be truncated as a leftover."""
        disk, path = self.handle.disk, self.handle.path
        name = directory.rpartition("/")[2]
        try:
            listed = disk.directories(path) if disk.exists(directory) else [name]
        except OSError as error:
            raise self.handle.classify(error) from error
        if name not in listed:
            other = next((one for one in listed if one.lower() == name.lower()), "another directory")
            raise NameTaken(
                f"{directory} is {other}: this file system does not distinguish the case of letters, so of these two "
                f"partitions it can hold one only"
            )

    def delete(self, partition: TopicPartition) -> str:
        """Rename a log's directory and close the log; the new path. Raises BrokerError or StorageError."""
        log = self.logs[partition]
        name = names.pending_delete_name(partition, self.handle.randomness.getrandbits(128))
        path = f"{self.handle.path}/{name}"
        try:
            self.handle.disk.rename(log.directory, path)
        except OSError as error:
            raise self.handle.classify(error) from error
        self._deleted.add(partition)
        del self.logs[partition]
        log.close_without_flush()
        return path

    def sync_deletion(self, partition: TopicPartition) -> None:
        """Before a log of that name is created in another directory: make the deletion of this one durable.

        Raises BrokerError or StorageError.
        """
        if partition in self._deleted and self.handle.failure is None:
            try:
                self.handle.disk.sync_directory(self.handle.path)
            except OSError as error:
                raise self.handle.classify(error) from error
            self._deleted.clear()

    def flush_candidates(self) -> list[Log]:
        """The logs that may be due for a flush, so that thousands of others cost nothing."""
        candidates, found = self.handle.flush_candidates, []
        for partition in list(candidates):
            log = self.logs.get(partition)
            if log is not None and log.may_need_flush:
                found.append(log)
            else:
                del candidates[partition]
        return found

    # Checkpoints.

    def recovery_points(self) -> dict[TopicPartition, int]:
        return {partition: _recovery_point(log) for partition, log in self.logs.items()}

    def log_starts(self) -> dict[TopicPartition, int]:
        """Of logs that start later than their first segment. The other logs start at that segment's base offset, once
        the removal of the segments before it is durable.
        """
        return {
            partition: log.log_start_offset
            for partition, log in self.logs.items()
            if log.log_start_offset > (0 if log.segments.names_changed else log.segments.all()[0].base)
        }

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {partition: log.high_watermark for partition, log in self.logs.items()}

    def cleaner_offsets(self) -> dict[TopicPartition, int]:
        """The first dirty offsets of logs that were compacted."""
        found = {partition: log.compaction.first_dirty_offset for partition, log in self.logs.items()}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def writer(self, name: str, offsets: dict[TopicPartition, int]) -> Callable[[], None] | None:
        """A function that writes a checkpoint, for a thread; None when the file is up to date. It raises OSError."""
        self._requested += 1
        request = self._requested
        if name in self._written and self._written[name][1] == offsets == self._latest.get(name, offsets):
            return None
        if name == names.CLEANER_OFFSETS and not offsets and name not in self._written:
            return None  # Without compacted logs the file is not created.

        self._latest[name] = offsets

        def write() -> None:
            with self._writing:
                # A later request may have been faster: this one would overwrite it with older offsets.
                if name not in self._written or self._written[name][0] < request:
                    checkpoints.write_offsets(self.handle.disk, self.handle.path, name, offsets)
                    self._written[name] = (request, offsets)

        return write

    def close(self) -> None:
        """Close every log cleanly, then write the checkpoints and the marker. Slow; raises OSError and StorageError.

        The marker is written only when all else succeeded.
        """
        try:
            self.handle.ensure_online()
            close_logs_cleanly(self.handle.disk, list(self.logs.values()))
            for name, offsets in (
                (names.RECOVERY_POINTS, self.recovery_points()),
                (names.LOG_STARTS, self.log_starts()),
                (names.HIGH_WATERMARKS, self.high_watermarks()),
                (names.CLEANER_OFFSETS, self.cleaner_offsets()),
            ):
                write = self.writer(name, offsets)
                if write is not None:
                    write()
            disk, path = self.handle.disk, self.handle.path
            marker = disk.open(f"{path}/{names.CLEAN_MARKER}", create=True)
            try:
                marker.sync()
            finally:
                marker.close()
            disk.sync_directory(path)
        finally:
            self.close_without_flush()

    def close_without_flush(self) -> None:
        """Close every file as it is, the lock last."""
        for log in self.logs.values():
            log.close_without_flush()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def _remove_partial(self, directory: str) -> None:
        """Remove the directory of a failed creation: the next start would take it for a partition."""
        disk = self.handle.disk
        with contextlib.suppress(OSError):
            for name in disk.list_directory(directory):
                disk.remove(f"{directory}/{name}")
            disk.remove_directory(directory)

    def _take_marker(self) -> bool:
        disk, path = self.handle.disk, self.handle.path
        marker = f"{path}/{names.CLEAN_MARKER}"
        is_clean = disk.exists(marker)
        if is_clean:
            disk.remove(marker)
        # After a power failure an undurable removal would leave the marker beside newer writes. An earlier start that
        # crashed may have removed it; then a sync of the directory by this start is enough.
        if is_clean or not self._names_are_synced:
            disk.sync_directory(path)
        return is_clean

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        offsets = checkpoints.read_offsets(self.handle.disk, self.handle.path, name)
        if self.handle.disk.exists(f"{self.handle.path}/{name}"):
            self._written[name] = (0, offsets)
        return offsets

    def _read_cleaner_offsets(self) -> dict[TopicPartition, int]:
        """Only cleaning work depends on them: a damaged file is reported, and every log is cleaned from its start."""
        try:
            return self._read_offsets(names.CLEANER_OFFSETS)
        except DamagedFile as error:
            self.findings.append(f"{error}: compacted logs are cleaned from their start")
            # For a damaged file Apache Kafka would take the directory offline.
            checkpoints.write_offsets(self.handle.disk, self.handle.path, names.CLEANER_OFFSETS, {})
            return self._read_offsets(names.CLEANER_OFFSETS)

    def _saved_recovery_point(self, partition: TopicPartition) -> int:
        written = self._written.get(names.RECOVERY_POINTS, (0, {}))[1]
        return max(offsets.get(partition, 0) for offsets in (written, self._latest.get(names.RECOVERY_POINTS, {})))

    def _save_recovery_points(self) -> None:
        write = self.writer(names.RECOVERY_POINTS, self.recovery_points())
        if write is not None:
            write()

    def deletion_writer(self, partitions: Collection[TopicPartition]) -> Callable[[], None] | None:
        """A function that makes deletions durable and removes the logs' offsets from the checkpoints, for a thread.

        None when there is nothing to do. It raises OSError.
        """
        if self.handle.failure is not None:
            return None
        writes = self._checkpoint_writers(partitions)
        deleted = set(self._deleted) if not self._deleted.isdisjoint(partitions) else set()
        if not writes and not deleted:
            return None

        def forget() -> None:
            for write in writes:
                write()
            if deleted:
                self.handle.disk.sync_directory(self.handle.path)
                self._deleted.difference_update(deleted)

        return forget

    def _checkpoint_writers(self, partitions: Collection[TopicPartition]) -> list[Callable[[], None]]:
        """Functions that rewrite the checkpoints that still hold these partitions, without those that have no log."""
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

    def _forget_deleted(self, partition: TopicPartition) -> None:
        """Remove a deleted log's offsets from the checkpoints before a new log has its name. Raises OSError."""
        for write in self._checkpoint_writers([partition]):
            write()


def _recovery_point(log: Log) -> int:
    """The recovery point for the checkpoint: within the active segment of an open log, whose indexes are unsynced."""
    if log.is_closed:
        return log.recovery_point
    return min(log.recovery_point, max(log.segments.active.base, log.log_end_offset - 1))
