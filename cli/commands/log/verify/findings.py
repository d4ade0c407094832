"""What `sordini log verify` may find: each kind of damage, what it means to who reads the log, and what repair does."""

from __future__ import annotations

from typing import Final, NamedTuple


class FindingKind(NamedTuple):
    """One kind of finding. A note is worth knowing, and nothing is wrong."""

    meaning: str
    repair: str
    is_note: bool = False


_TRUNCATES: Final = "cuts the log before this batch; what comes after it is lost"
_REBUILDS_INDEX: Final = "makes the index anew from the log; nothing is lost"
_LEAVES: Final = "leaves it as it is"
_TRUSTED: Final = (
    "the marker says that the files can be trusted unread, and these cannot: Apache Kafka would believe it and"
)

KINDS: Final[dict[str, FindingKind]] = {
    # The segments.
    "torn-batch": FindingKind(
        "the newest batch is not all there, as after a crash in the middle of writing it", _TRUNCATES
    ),
    "zeros": FindingKind("room was allocated and never written, as a power failure leaves it", _TRUNCATES),
    "nonsense": FindingKind("nothing from here on can be read; a consumer stops here or gets an error", _TRUNCATES),
    "wrong-crc": FindingKind(
        "the batch's bytes are not those that were written; a consumer gets an error for it", _TRUNCATES
    ),
    "unknown-format": FindingKind("the batch says that it is of a format which does not exist", _TRUNCATES),
    "unreadable-records": FindingKind("the CRC is right and the records are not: it was written like this", _TRUNCATES),
    "wrong-count": FindingKind("the header says something else about the records than what there is", _TRUNCATES),
    "offsets-fall": FindingKind("a look-up by offset finds the wrong batch, or this one never", _TRUNCATES),
    "offset-too-far": FindingKind(
        "indexes cannot hold an offset so far from the segment's first: it is a wrong one", _TRUNCATES
    ),
    "unknown-codec": FindingKind("no reader can decompress the batch", _TRUNCATES),
    "segments-overlap": FindingKind(
        "some offsets are there twice", "removes the segment when all its offsets are there before, else cuts before it"
    ),
    "gap": FindingKind(
        "records between two segments are gone, and no reader notices",
        "keeps what is before and after the gap: what is lost stays lost",
    ),
    # Their indexes.
    "index-missing": FindingKind("the first look-up has to read the whole segment, or fails", _REBUILDS_INDEX),
    "index-half-entry": FindingKind("the index was cut in the middle of an entry", _REBUILDS_INDEX),
    "index-padded": FindingKind(
        "zeros after the entries read as entries: Apache Kafka then takes the segment for ancient and deletes it",
        _REBUILDS_INDEX,
    ),
    "index-disorder": FindingKind("a binary search in it goes astray", _REBUILDS_INDEX),
    "index-wrong": FindingKind("a look-up begins at a place that is no batch's, or another's", _REBUILDS_INDEX),
    "index-short": FindingKind("a look-up has to read much of the segment", _REBUILDS_INDEX),
    "time-index-missing": FindingKind(
        "a look-up by time misses the segment; retention goes by the file's own time", _REBUILDS_INDEX
    ),
    "time-index-half-entry": FindingKind("the index was cut in the middle of an entry", _REBUILDS_INDEX),
    "time-index-padded": FindingKind(
        "zeros after the entries read as time 0: Apache Kafka then takes the segment for ancient and deletes it",
        _REBUILDS_INDEX,
    ),
    "time-index-disorder": FindingKind("a look-up by time goes astray", _REBUILDS_INDEX),
    "time-index-wrong": FindingKind(
        "a look-up by time finds another record than the first of that time", _REBUILDS_INDEX
    ),
    "time-index-short": FindingKind(
        "retention takes the segment for older than it is, and a look-up may miss it", _REBUILDS_INDEX
    ),
    "orphan": FindingKind("it is of a segment whose log is gone", "removes it, as a broker does at its start"),
    "txn-index-missing": FindingKind(
        "who reads only what was committed gets these records, which were aborted", _REBUILDS_INDEX
    ),
    "txn-index-wrong": FindingKind("who reads only what was committed leaves out records that were", _REBUILDS_INDEX),
    "txn-index-damaged": FindingKind(
        "who reads only what was committed may get records that were aborted", _REBUILDS_INDEX
    ),
    # What is known about the log.
    "snapshot-damaged": FindingKind(
        "it is of no use; a broker goes back to an older one", "writes the state at the end anew"
    ),
    "snapshot-wrong": FindingKind(
        "a broker that starts with it takes new records for duplicates, or duplicates for new ones, or forgets an "
        "open transaction",
        "writes the state at the end anew from the log",
    ),
    "snapshot-beyond": FindingKind("it is of offsets that are not in the log", "removes it"),
    "epochs-damaged": FindingKind(
        "Apache Kafka would give up the whole log directory", "makes the file anew from the log"
    ),
    "epochs-disorder": FindingKind(
        "followers may keep records that their leader never had", "makes the file anew from the log"
    ),
    "epochs-wrong": FindingKind(
        "followers may keep records that their leader never had", "makes the file anew from the log"
    ),
    "epochs-beyond": FindingKind(
        "an epoch begins after the log's end; a broker drops it", "makes the file anew from the log"
    ),
    "metadata-damaged": FindingKind(
        "Apache Kafka 3.9.1 does not start with it",
        "removes the file; a broker writes it anew from what its cluster says",
    ),
    "topic-ids-differ": FindingKind("the partition is of a deleted topic of this name; brokers refuse it", _LEAVES),
    # The log directory.
    "checkpoint-damaged": FindingKind(
        "Apache Kafka would give up the whole log directory", "writes it anew from the logs"
    ),
    "high-watermark-beyond": FindingKind(
        "more is said to be committed than there is; a broker cuts it", "writes it anew"
    ),
    "recovery-point-beyond": FindingKind(
        "a broker would not check the end of the log after a crash, because it counts as flushed", "writes it anew"
    ),
    "log-start-beyond": FindingKind(
        "every broker deletes the whole log at its start", "takes the entry out, and keeps the log"
    ),
    "log-start-below": FindingKind("offsets that are gone are said to be there", "writes it anew"),
    "meta-damaged": FindingKind("no broker starts on the directory", "leaves it out: a broker writes its own"),
    "hazard-torn": FindingKind(
        f"{_TRUSTED} lose the end of the log from view", "takes the marker away before it reads anything"
    ),
    "hazard-padded": FindingKind(
        f"{_TRUSTED} delete the partition's segments within a minute", "takes the marker away first"
    ),
    "hazard-snapshot": FindingKind(
        f"{_TRUSTED} forget its producers: open transactions would show, duplicates be accepted",
        "writes the state at the end anew from the log",
    ),
    "stray-directory": FindingKind("it is no partition's: Apache Kafka does not start on the log directory", _LEAVES),
    "duplicate-partition": FindingKind(
        "the partition is in two log directories; no broker can tell which one counts", _LEAVES
    ),
    # Worth knowing.
    "leftover": FindingKind("a broker finishes it at its start", "finishes it", is_note=True),
    "unfinished-swap": FindingKind(
        "a compaction was cut off; a broker completes it at its start", "completes it", is_note=True
    ),
    "other-file": FindingKind("brokers leave it alone", _LEAVES, is_note=True),
    "other-directory": FindingKind("a broker removes it, or leaves it alone", _LEAVES, is_note=True),
    "entry-without-partition": FindingKind("brokers ignore it", "leaves it out", is_note=True),
    "meta-missing": FindingKind("a broker writes it at its first start", _LEAVES, is_note=True),
    "live": FindingKind("a broker runs on it: what is newest may be half written", "is refused", is_note=True),
}


class Finding(NamedTuple):
    """One thing found. `position` is a byte of the file, `offset` the record it concerns, where there is one."""

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
"""Of one kind in one file: one wrong place may have thousands after it."""


class Collector:
    """Findings as they come, the first few of each kind in each file; the others are counted."""

    def __init__(self) -> None:
        self._listed: list[Finding] = []
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, finding: Finding) -> None:
        kind_in_file = (finding.kind, finding.path)
        count = self._counts[kind_in_file] = self._counts.get(kind_in_file, 0) + 1
        if count <= LISTED_MAX:
            self._listed.append(finding)

    def listed(self) -> list[Finding]:
        """What was found, and one more for each kind of which not all are listed."""
        more = [
            Finding(kind, path, f"{count - LISTED_MAX} more of these in the file")
            for (kind, path), count in self._counts.items()
            if count > LISTED_MAX
        ]
        return self._listed + more
