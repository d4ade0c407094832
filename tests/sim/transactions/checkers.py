"""Verdicts over transactions. Each checker returns its findings as sentences; no finding is a clean run.

Every record's fate is read from the logs, by their markers. The laws:

  T1  a transaction is all or nothing, on all partitions and offsets: all of it is committed when that was answered,
      nothing when an abort was answered or a commit was never requested;
  T2  read_committed returns no record that is aborted, open, or of a transaction whose commit was not requested yet;
  T3  the last stable offset is at most the high watermark, nothing is served beyond it, and it never falls: for one
      leader epoch, nor, as the latest offset, from one leader to the next;
  T4  read_committed leaves out no committed record;
  T5  no transaction hangs: in the end each has its marker in every partition, and every transactional id is idle;
  T6  a fenced producer appends nothing: no value that it sent after its successor's InitProducerId was answered, and
      in no log does a producer's epoch fall;
  T7  what coordinators describe in the end is what `__transaction_state` folds to;
  T8  committed offsets of a group are those of its last committed transaction, and never older than an answered commit,
      but for a coordinator that another broker has superseded and that cannot know it yet;
  T9  no answer that no fault explains; only a superseded coordinator may not know a transactional id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.cluster.checkers import fallen_ends, fallen_watermarks
from tests.sim.cluster.images import Image
from tests.sim.transactions.folding import Fate, Folded, fold, producer_epochs, states, whole_logs
from tests.sim.transactions.history import OFFSETS, CommittedPoll, Transaction, TransactionHistory

VISIBLE = (Fate.COMMITTED, Fate.PLAIN)
VERIFIED_S_MAX = 1.5
"""What the answer of a request takes at most that a coordinator is asked for."""
IDLE = ("Empty", "CompleteCommit", "CompleteAbort")


class Coordinators(Protocol):
    """Which coordinators could not know that another broker had superseded them."""

    def is_superseded(self, at: float, address: Address) -> bool:
        """Whether a broker did not know at a time that another one coordinates the groups."""

    def had_superseded(self, transactional_id: str, start: float, end: float) -> bool:
        """Whether a transactional id had a coordinator between that did not know that there was another."""


class _AlwaysKnown:
    def is_superseded(self, _at: float, _address: Address) -> bool:
        return False

    def had_superseded(self, _transactional_id: str, _start: float, _end: float) -> bool:
        return False


ALWAYS_KNOWN = _AlwaysKnown()
"""A single broker supersedes none."""


class Truth(NamedTuple):
    """What the logs say in the end."""

    images: Sequence[Image]
    """Of every partition the whole log."""
    logs: Mapping[TopicPartition, list[Folded]]
    """Every record of the data partitions and of the offsets."""
    fates: Mapping[str, Fate]
    """Of every value and note; a note that was written twice has its first fate."""
    transactions: Mapping[str, Transaction]
    """The transaction of every value and note that was sent."""


def truth_of(history: TransactionHistory, final: Iterable[Image]) -> Truth:
    whole = whole_logs(final)
    logs = {partition: fold(image) for partition, image in sorted(whole.items()) if _has_values(partition)}
    fates: dict[str, Fate] = {}
    for records in logs.values():
        for record in records:
            fates.setdefault(record.seen.value, record.fate)
    owners = {
        value: transaction
        for transaction in history.transactions
        for values in transaction.sent.values()
        for value in values
    }
    return Truth(list(whole.values()), logs, fates, owners)


def _has_values(partition: TopicPartition) -> bool:
    return partition == OFFSETS or not partition.topic.startswith("__")


def check_transactions(
    history: TransactionHistory,
    final: Sequence[Image],
    coordinators: Coordinators = ALWAYS_KNOWN,
) -> list[str]:
    """All findings of all checkers."""
    truth = truth_of(history, final)
    return [
        *torn(history, truth),
        *dirty_reads(history, truth),
        *unstable_reads(history),
        *omissions(history, truth),
        *hanging(history, truth),
        *fenced_appends(history, truth),
        *folded_states(history, truth),
        *stale_offsets(history, truth, coordinators),
        *(f"T9 {answer}" for answer in history.strange),
        *unknown_ids(history, coordinators),
    ]


def torn(history: TransactionHistory, truth: Truth) -> Iterator[str]:
    for transaction in history.transactions:
        values = [value for sent in transaction.sent.values() for value in sent]
        committed = {value for value in values if truth.fates.get(value) is Fate.COMMITTED}
        lost = sorted(transaction.acknowledged - committed)
        if transaction.outcome == "committed" and lost:
            fates = ", ".join(f"{value} is {_fate(truth, value)}" for value in lost)
            yield f"T1 the commit of {transaction.name} was answered at {transaction.ended:.3f}, and {fates}"
        elif committed and (transaction.outcome == "aborted" or not transaction.commits):
            end = "aborted" if transaction.outcome == "aborted" else "not ended by its producer"
            yield f"T1 {transaction.name} was {end}, and {', '.join(sorted(committed))} is committed"
        elif committed and lost:
            fates = ", ".join(f"{value} is {_fate(truth, value)}" for value in lost)
            yield f"T1 {transaction.name} is torn: {', '.join(sorted(committed))} is committed, and {fates}"


def _fate(truth: Truth, value: str) -> str:
    fate = truth.fates.get(value)
    return "gone" if fate is None else fate.value


def dirty_reads(history: TransactionHistory, truth: Truth) -> Iterator[str]:
    for poll in (*history.polls, *history.final):
        for offset, value in poll.seen:
            where = f"{poll.reader} read {value} at {poll.partition}@{offset} at {poll.at:.3f}"
            fate, transaction = truth.fates.get(value), truth.transactions.get(value)
            if fate not in VISIBLE:
                yield f"T2 {where}, which is {_fate(truth, value)}"
            elif transaction is not None and poll.at < transaction.end_sent:
                yield f"T2 {where}, and its commit was requested at {transaction.end_sent:.3f}"


def unstable_reads(history: TransactionHistory) -> Iterator[str]:
    for poll in (*history.polls, *history.final):
        where = f"{poll.partition} at {poll.at:.3f}"
        if poll.last_stable_offset > poll.high_watermark:
            yield f"T3 {where} has last stable offset {poll.last_stable_offset} above watermark {poll.high_watermark}"
        if poll.next_offset > poll.asked and poll.next_offset > poll.last_stable_offset:
            yield f"T3 {where} was served up to @{poll.next_offset}, beyond the stable @{poll.last_stable_offset}"
    yield from (f"T3 of last stable offsets: {text}" for text in fallen_watermarks(history.marks))
    yield from (f"T3 of last stable offsets: {text}" for text in fallen_ends(history.marks))


def omissions(history: TransactionHistory, truth: Truth) -> Iterator[str]:
    for poll in (*history.polls, *history.final):
        yield from _omitted(poll, truth.logs.get(poll.partition, []))


def _omitted(poll: CommittedPoll, log: list[Folded]) -> Iterator[str]:
    if poll.next_offset == poll.asked:
        return
    read = {seen.offset for seen in poll.seen}
    for record in log:
        offset = record.seen.offset
        if poll.asked <= offset < poll.next_offset and record.fate in VISIBLE and offset not in read:
            where = f"{poll.partition}@{offset}"
            yield f"T4 {poll.reader} was not given {record.seen.value} at {where}, which is {record.fate.value}"


def hanging(history: TransactionHistory, truth: Truth) -> Iterator[str]:
    for partition, log in truth.logs.items():
        for record in log:
            if record.fate is Fate.OPEN:
                yield f"T5 {record.seen.value} at {partition}@{record.seen.offset} has no marker in the end"
    for state in history.states:
        if state.state not in IDLE:
            yield f"T5 {state.transactional_id} is {state.state} in the end"


def fenced_appends(history: TransactionHistory, truth: Truth) -> Iterator[str]:
    appended = {record.seen.value for log in truth.logs.values() for record in log}
    for transaction in history.transactions:
        later = [
            epoch.at
            for epoch in history.epochs
            if epoch.transactional_id == transaction.transactional_id
            and (epoch.producer_id, epoch.epoch) > (transaction.producer_id, transaction.epoch)
        ]
        fenced_at = min(later, default=float("inf"))
        for values in transaction.sent.values():
            for value, sent in values.items():
                if sent > fenced_at and value in appended:
                    yield f"T6 {value} was sent at {sent:.3f} by a producer that was fenced at {fenced_at:.3f}"
    for image in truth.images:
        highest: dict[int, int] = {}
        for offset, producer_id, epoch in producer_epochs(image):
            if epoch < highest.get(producer_id, -1):
                before = highest[producer_id]
                yield f"T6 {image.partition}@{offset} is of epoch {epoch} of producer {producer_id}, after {before}"
            highest[producer_id] = epoch


def folded_states(history: TransactionHistory, truth: Truth) -> Iterator[str]:
    folded = states(truth.images)
    for described in history.states:
        value = folded.get(described.transactional_id)
        written = None if value is None else (value.state_name, value.producer_id, value.producer_epoch)
        if written != described[1:]:
            yield f"T7 {described.transactional_id} is {described[1:]} by its coordinator, and {written} in the log"
    if history.states and (missing := sorted(folded.keys() - {state.transactional_id for state in history.states})):
        yield f"T7 the log has {missing}, of which no coordinator was asked"


def stale_offsets(history: TransactionHistory, truth: Truth, coordinators: Coordinators) -> Iterator[str]:
    read: dict[str, int] = {}
    last: dict[str, str] = {}
    for offset in history.offsets:
        where = f"{offset.group_id} has {offset.note or 'no offset'} at {offset.at:.3f}"
        transaction = truth.transactions.get(offset.note)
        if offset.note and (transaction is None or truth.fates.get(offset.note) is not Fate.COMMITTED):
            yield f"T8 {where}, which is {_fate(truth, offset.note)}"
        elif transaction is not None and offset.at < transaction.end_sent:
            yield f"T8 {where}, and its commit was requested at {transaction.end_sent:.3f}"
        if coordinators.is_superseded(offset.began, offset.coordinator):
            continue
        number = 0 if transaction is None else transaction.number
        if number < read.get(offset.group_id, 0):
            yield f"T8 {where}, after the offset of transaction {read[offset.group_id]}"
        newest = _answered_before(history, offset.group_id, offset.began)
        if number < newest:
            yield f"T8 {where}, and the commit of transaction {newest} was answered before"
        read[offset.group_id], last[offset.group_id] = number, offset.note
    yield from _not_the_last(last, truth)


def unknown_ids(history: TransactionHistory, coordinators: Coordinators) -> Iterator[str]:
    for refused in history.unknown_ids:
        if not coordinators.had_superseded(refused.transactional_id, refused.at - VERIFIED_S_MAX, refused.at):
            yield f"T9 {refused.what} was answered INVALID_PRODUCER_ID_MAPPING at {refused.at:.3f}"


def _answered_before(history: TransactionHistory, group_id: str, at: float) -> int:
    """The number of the newest transaction with an offset for a group whose commit had been answered."""
    return max(
        (
            transaction.number
            for transaction in history.transactions
            if transaction.outcome == "committed"
            and transaction.ended < at
            and OFFSETS in transaction.sent
            and group_id == f"group-{transaction.transactional_id}"
        ),
        default=0,
    )


def _not_the_last(last: Mapping[str, str], truth: Truth) -> Iterator[str]:
    newest: dict[str, tuple[int, int, str]] = {}
    for record in truth.logs.get(OFFSETS, []):
        if record.fate is Fate.COMMITTED:
            group_id = f"group-{truth.transactions[record.seen.value].transactional_id}"
            found = record.marker_offset, record.seen.offset, record.seen.value
            newest[group_id] = max(newest.get(group_id, found), found)
    for group_id, (_, _, note) in sorted(newest.items()):
        if group_id in last and last[group_id] != note:
            yield f"T8 {group_id} has {last[group_id] or 'no offset'} in the end, and the log {note}"
