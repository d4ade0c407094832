"""The kinds of findings of `sordini log verify`: what each means for readers of the log, and what repair does."""

from __future__ import annotations

from typing import Final

from sordini.system.named_tuple import NamedTuple


class FindingKind(NamedTuple):
    """One kind of finding. A note is information, not damage."""

    meaning: str
    repair: str
    is_note: bool = False


_TRUNCATES: Final = "truncates the log before this batch; all later records are lost"
_REBUILDS_INDEX: Final = "rebuilds the index from the log; nothing is lost"
_LEAVES: Final = "leaves it as it is"
_TRUSTED: Final = (
    "the clean shutdown marker says that the files need no recovery, and these do: Apache Kafka would believe it and"
)

KINDS: Final[dict[str, FindingKind]] = {
    # The segments.
    "torn-batch": FindingKind("the newest batch is incomplete, as after a crash during the write", _TRUNCATES),
    "zeros": FindingKind("space was allocated and never written, as after a power failure", _TRUNCATES),
    "nonsense": FindingKind("nothing after this can be read; a consumer stops here or gets an error", _TRUNCATES),
    "wrong-crc": FindingKind(
        "the batch's bytes have changed since they were written; a consumer gets an error for it", _TRUNCATES
    ),
    "unknown-format": FindingKind("the batch's magic byte is of a format that does not exist", _TRUNCATES),
    "unreadable-records": FindingKind(
        "the CRC is right and the records are invalid: it was written like this", _TRUNCATES
    ),
    "wrong-count": FindingKind("the batch header does not match the records", _TRUNCATES),
    "offsets-fall": FindingKind("a lookup by offset finds the wrong batch, or never finds this one", _TRUNCATES),
    "offset-too-far": FindingKind(
        "the offset is too far from the base offset for the indexes: it is wrong", _TRUNCATES
    ),
    "unknown-codec": FindingKind("no reader can decompress the batch", _TRUNCATES),
    "segments-overlap": FindingKind(
        "some offsets exist twice",
        "removes the segment if earlier segments have all its offsets, otherwise truncates the log before it",
    ),
    "gap": FindingKind(
        "records between two segments are missing, and no reader notices",
        "keeps the records before and after the gap; the missing ones are lost",
    ),
    # Their indexes.
    "index-missing": FindingKind("the first lookup reads the whole segment, or fails", _REBUILDS_INDEX),
    "index-half-entry": FindingKind("the index ends in the middle of an entry", _REBUILDS_INDEX),
    "index-padded": FindingKind(
        "the zeros after the entries are read as entries: Apache Kafka then considers the segment old and deletes it",
        _REBUILDS_INDEX,
    ),
    "index-disorder": FindingKind("a binary search in it fails", _REBUILDS_INDEX),
    "index-wrong": FindingKind("a lookup begins inside a batch, or at the wrong batch", _REBUILDS_INDEX),
    "index-short": FindingKind("a lookup reads much of the segment", _REBUILDS_INDEX),
    "time-index-missing": FindingKind(
        "a lookup by time misses the segment; retention uses the file's modification time", _REBUILDS_INDEX
    ),
    "time-index-half-entry": FindingKind("the index ends in the middle of an entry", _REBUILDS_INDEX),
    "time-index-padded": FindingKind(
        "the zeros after the entries are read as time 0: Apache Kafka then considers the segment old and deletes it",
        _REBUILDS_INDEX,
    ),
    "time-index-disorder": FindingKind("a lookup by time fails", _REBUILDS_INDEX),
    "time-index-wrong": FindingKind("a lookup by time finds the wrong record", _REBUILDS_INDEX),
    "time-index-short": FindingKind(
        "retention considers the segment older than it is, and a lookup may miss it", _REBUILDS_INDEX
    ),
    "orphan": FindingKind("the segment's log is missing", "removes it, as a broker does at start-up"),
    "txn-index-missing": FindingKind(
        "a read_committed consumer gets these records, which were aborted", _REBUILDS_INDEX
    ),
    "txn-index-wrong": FindingKind("a read_committed consumer skips committed records", _REBUILDS_INDEX),
    "txn-index-damaged": FindingKind("a read_committed consumer may get aborted records", _REBUILDS_INDEX),
    # Files about the log.
    "snapshot-damaged": FindingKind(
        "it cannot be used; a broker uses an older one", "rewrites the snapshot at the log's end"
    ),
    "snapshot-wrong": FindingKind(
        "a broker that starts with it rejects new records as duplicates, accepts duplicates, or forgets an open "
        "transaction",
        "rewrites the snapshot at the log's end from the log",
    ),
    "snapshot-beyond": FindingKind("its offset is beyond the end of the log", "removes it"),
    "epochs-damaged": FindingKind(
        "Apache Kafka would take the whole log directory offline", "rebuilds the file from the log"
    ),
    "epochs-disorder": FindingKind(
        "followers may keep records that their leader never had", "rebuilds the file from the log"
    ),
    "epochs-wrong": FindingKind(
        "followers may keep records that their leader never had", "rebuilds the file from the log"
    ),
    "epochs-beyond": FindingKind(
        "an epoch begins after the log's end; a broker drops it", "rebuilds the file from the log"
    ),
    "metadata-damaged": FindingKind(
        "Apache Kafka 3.9.1 does not start with it",
        "removes the file; a broker writes it again from the cluster's metadata",
    ),
    "topic-ids-differ": FindingKind("it belongs to a deleted topic of this name; brokers refuse it", _LEAVES),
    # The log directory.
    "checkpoint-damaged": FindingKind(
        "Apache Kafka would take the whole log directory offline", "rewrites it from the logs"
    ),
    "high-watermark-beyond": FindingKind(
        "the high watermark is beyond the log's end; a broker lowers it", "rewrites it"
    ),
    "recovery-point-beyond": FindingKind(
        "a broker would not recover the end of the log after a crash, because it counts as flushed", "rewrites it"
    ),
    "log-start-beyond": FindingKind(
        "every broker deletes the whole log at start-up", "removes the entry, and keeps the log"
    ),
    "log-start-below": FindingKind("the log start offset is below the first record", "rewrites it"),
    "meta-damaged": FindingKind("no broker starts on the directory", "omits it: a broker writes its own"),
    "hazard-torn": FindingKind(f"{_TRUSTED} ignore the end of the log", "removes the marker before it reads anything"),
    "hazard-padded": FindingKind(
        f"{_TRUSTED} delete the partition's segments within a minute", "removes the marker first"
    ),
    "hazard-snapshot": FindingKind(
        f"{_TRUSTED} forget its producers: records of open transactions would be readable, duplicates accepted",
        "rewrites the snapshot at the log's end from the log",
    ),
    "stray-directory": FindingKind("not a partition: Apache Kafka does not start on the log directory", _LEAVES),
    "duplicate-partition": FindingKind(
        "the partition is in two log directories; a broker cannot know which one is valid", _LEAVES
    ),
    # Notes.
    "leftover": FindingKind("a broker finishes it at start-up", "finishes it", is_note=True),
    "unfinished-swap": FindingKind(
        "a compaction was interrupted; a broker completes it at start-up", "completes it", is_note=True
    ),
    "other-file": FindingKind("brokers leave it alone", _LEAVES, is_note=True),
    "other-directory": FindingKind("a broker removes it, or leaves it alone", _LEAVES, is_note=True),
    "entry-without-partition": FindingKind("brokers ignore it", "omits it", is_note=True),
    "meta-missing": FindingKind("a broker writes it at its first start-up", _LEAVES, is_note=True),
    "live": FindingKind("a broker is running on it: the newest data may be incomplete", "is refused", is_note=True),
}


class Finding(NamedTuple):
    """One finding. `position` is a byte of the file, `offset` that of the affected record, if there is one."""

    kind: str
    path: str
    what: str
    position: int | None = None
    offset: int | None = None

    @property
    def is_damage(self) -> bool:
        return not KINDS[self.kind].is_note

    @property
    def meaning(self) -> str:
        return KINDS[self.kind].meaning

    @property
    def repair(self) -> str:
        return KINDS[self.kind].repair


LISTED_MAX: Final = 5
"""Findings listed of one kind in one file: one error may cause thousands."""


class Collector:
    """Collects findings: the first few of each kind in each file; the others are counted."""

    def __init__(self) -> None:
        self._listed: list[Finding] = []
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, finding: Finding) -> None:
        kind_in_file = (finding.kind, finding.path)
        count = self._counts[kind_in_file] = self._counts.get(kind_in_file, 0) + 1
        if count <= LISTED_MAX:
            self._listed.append(finding)

    def listed(self) -> list[Finding]:
        """The findings, and one more for each kind of which not all are listed."""
        more = [
            Finding(kind, path, f"{count - LISTED_MAX} more of these in the file")
            for (kind, path), count in self._counts.items()
            if count > LISTED_MAX
        ]
        return self._listed + more
