"""Compares the producer state that the log yields with its snapshots and transaction indexes.

The log is replayed once from its start. The files may know producers and transactions from before the log's start, or
from compacted records: there only contradictions to the log are findings.
"""

from __future__ import annotations

import struct
from typing import Final

from sordini.cli.commands.log.dump.kafka_indexes import rows
from sordini.cli.commands.log.files.segment_walk import LogEntry
from sordini.cli.commands.log.files.snapshot_file import read_snapshot
from sordini.cli.commands.log.verify.findings import Collector, Finding
from sordini.cli.commands.log.verify.indexes import index_path
from sordini.protocol.records.batch import BatchHeader
from sordini.storage import names
from sordini.storage.disk import Disk
from sordini.storage.producer_replay import apply_control, apply_data
from sordini.storage.producer_state import NO_OFFSET, AbortedTransaction, ProducerEntry, ProducerState
from sordini.system.named_tuple import NamedTuple

_ABORT_ENTRY: Final = struct.Struct(">hqqqq")


class Snapshot(NamedTuple):
    """One readable snapshot: the producer state up to its offset."""

    path: str
    offset: int
    entries: dict[int, ProducerEntry]


class ProducerCheck:
    """Follows the sound batches of a partition in order."""

    def __init__(self, disk: Disk, directory: str, start: int, *, may_lack_records: bool) -> None:
        self._found = Collector()
        self.state = ProducerState()
        self._disk = disk
        self._directory = directory
        self._start = start
        self._may_lack_records = may_lack_records
        self._aborted: list[AbortedTransaction] = []
        self._snapshots = self._read_snapshots()
        self._is_broken = False

    @property
    def findings(self) -> list[Finding]:
        return self._found.listed()

    @property
    def snapshot_offsets(self) -> list[int]:
        """The offsets of readable snapshots that are not compared yet."""
        return [snapshot.offset for snapshot in self._snapshots]

    def _read_snapshots(self) -> list[Snapshot]:
        found = []
        for name in self._disk.list_directory(self._directory):
            offset = names.offset_of(name, names.SNAPSHOT)
            if offset is None:
                continue
            path = f"{self._directory}/{name}"
            entries = read_snapshot(self._disk.read(path))
            if isinstance(entries, str):
                self._found.add(Finding("snapshot-damaged", path, entries, 0, offset))
            else:
                found.append(Snapshot(path, offset, {entry.producer_id: entry for entry in entries}))
        return found

    def batch(self, entry: LogEntry, header: BatchHeader) -> None:
        self.reached(header.base_offset)
        if header.producer_id < 0:
            return
        if not header.is_control:
            apply_data(self.state, header, header.base_offset)
            return
        aborted = apply_control(self.state, header, header.base_offset, entry.data[: header.size])
        if aborted is not None:
            self._aborted.append(aborted)

    def lose_track(self) -> None:
        """Note that something could not be read: from here on the state is unknown."""
        self._is_broken = True

    def reached(self, offset: int) -> None:
        """Compare the snapshots up to an offset to which the log was read."""
        while self._snapshots and self._snapshots[0].offset <= offset:
            snapshot = self._snapshots.pop(0)
            # For a snapshot at the log's start, or before it, the log has no data.
            if snapshot.offset > self._start and not self._is_broken:
                self._compare(snapshot)

    def end(self, end_offset: int) -> None:
        """Compare the remaining snapshots at the log's end."""
        self.reached(end_offset)
        for snapshot in self._snapshots:
            what = f"the state at offset {snapshot.offset}, and the log ends at {end_offset}"
            self._found.add(Finding("snapshot-beyond", snapshot.path, what, None, snapshot.offset))

    def _compare(self, snapshot: Snapshot) -> None:
        for known in self.state.entries():
            stored = snapshot.entries.get(known.producer_id)
            why = self._difference(known, stored)
            if why is not None:
                self._found.add(
                    Finding(
                        "snapshot-wrong", snapshot.path, f"producer {known.producer_id} {why}", None, snapshot.offset
                    )
                )
        known_ids = self.state.known()
        for producer_id, stored in snapshot.entries.items():
            if producer_id not in known_ids and stored.last_offset >= self._start and not self._may_lack_records:
                what = f"producer {producer_id} wrote nothing, and is said to have written offset {stored.last_offset}"
                self._found.add(Finding("snapshot-wrong", snapshot.path, what, None, snapshot.offset))

    def _difference(self, known: ProducerEntry, stored: ProducerEntry | None) -> str | None:
        if stored is None:
            # An idle producer expires, but not one with an open transaction.
            is_open = known.transaction_first_offset != NO_OFFSET
            return (
                f"has a transaction open since {known.transaction_first_offset} and is not there" if is_open else None
            )
        if stored.last_offset > known.last_offset and (stored.last_offset < self._start or self._may_lack_records):
            return None
        for name in ("epoch", "last_offset", "last_sequence"):
            if getattr(stored, name) != getattr(known, name):
                return f"has {name.replace('_', ' ')} {getattr(stored, name)}, the log says {getattr(known, name)}"
        if known.transaction_first_offset != stored.transaction_first_offset:
            before = 0 <= stored.transaction_first_offset < self._start
            if not before and not self._may_lack_records:
                return (
                    f"has a transaction open since {stored.transaction_first_offset}, the log says "
                    f"{known.transaction_first_offset} (-1: none)"
                )
        return None

    def segment_ended(self, base: int) -> None:
        """Compare a segment's transaction index with the aborts found in it, after it was read."""
        expected, self._aborted = self._aborted, []
        path = index_path(self._directory, base, names.TRANSACTION_INDEX)
        found = self._read_aborts(path)
        if found is None or self._is_broken:
            return
        for aborted in expected:
            if aborted not in found:
                what = (
                    f"the transaction of producer {aborted.producer_id} from offset {aborted.first_offset} to "
                    f"{aborted.last_offset} was aborted (stable up to {aborted.last_stable_offset}), and is not there"
                )
                self._found.add(Finding("txn-index-missing", path, what, None, aborted.first_offset))
        for number, stored in enumerate(found):
            if stored in expected or stored.first_offset < self._start or self._may_lack_records:
                continue
            span = f"from offset {stored.first_offset} to {stored.last_offset}"
            what = f"producer {stored.producer_id} aborted nothing {span}"
            position = number * _ABORT_ENTRY.size
            self._found.add(Finding("txn-index-wrong", path, what, position, stored.first_offset))

    def _read_aborts(self, path: str) -> list[AbortedTransaction] | None:
        """The entries; None if the file is damaged, which becomes a finding."""
        if not self._disk.exists(path):
            return []
        found = []
        file = self._disk.open(path, writable=False)
        try:
            rest = file.size() % _ABORT_ENTRY.size
            if rest:
                what = f"{rest} bytes are left, an entry has {_ABORT_ENTRY.size}"
                self._found.add(Finding("txn-index-damaged", path, what, file.size() - rest))
                return None
            for at, (version, *fields) in rows(file, _ABORT_ENTRY):
                if version != 0:
                    self._found.add(Finding("txn-index-damaged", path, f"version {version}", at))
                    return None
                found.append(AbortedTransaction(*fields))
        finally:
            file.close()
        return found
