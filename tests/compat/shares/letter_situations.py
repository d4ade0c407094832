"""Situations of dead letters: which records become some, what these are, and what happens when they cannot be written."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import NamedTuple

from sordini.protocol.records.batch import Record, build_batch
from tests.compat.shares.letter_story import ALLOWED, DLQ, TOPIC_RESOURCE, LetterStory, Unwritten
from tests.compat.shares.situations import Transactions, now_ms
from tests.compat.shares.story import ACCEPT, CLOSE, REJECT, RELEASE, has_records
from tests.compat.situations.batches import THEN, batch, record

GAP = 0
HEADER = "header"
GZIP = 1
ONE_REJECTED = Unwritten(waiting="0 [(0, 0, 3, 1)]", given_up="0 [(0, 0, 4, 1)]")
"""A partition of one record, which was rejected."""

Play = Callable[[LetterStory], None]


class LetterSituation(NamedTuple):
    """One, by its sentence."""

    sentence: str
    play: Play


LETTER_SITUATIONS: list[LetterSituation] = []


def situation(sentence: str) -> Callable[[Play], Play]:
    """Register a function."""

    def register(play: Play) -> Play:
        LETTER_SITUATIONS.append(LetterSituation(sentence, play))
        return play

    return register


def rejected(story: LetterStory) -> None:
    """The one record is rejected."""
    story.fetch()
    story.acknowledge([(0, 0, [REJECT])])


# --- which records become dead letters -----------------------------------------------------------------


@situation("a record that is rejected becomes a dead letter")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(3)
    story.fetch()
    story.acknowledge([(1, 1, [REJECT])])
    story.letters(1)
    story.acknowledge([(0, 0, [ACCEPT]), (2, 2, [ACCEPT])])
    story.stored_is((0, 0, 2, 1), (1, 1, 4, 1), (2, 2, 2, 1), start=0)


@situation("records are rejected in several requests and batches")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(2, 3, 2)
    story.fetch()
    story.acknowledge([(0, 3, [REJECT])])
    story.await_letters(4)
    story.fetch(said={("t", 0): [(4, 6, [REJECT, ACCEPT, REJECT])]}, parts=())
    story.letters(6)


@situation("a record that is released from its last delivery becomes a dead letter")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(1, share_delivery_count_limit=2)
    for _ in range(2):
        story.fetch_until("a", has_records)
        story.acknowledge([(0, 0, [RELEASE])])
    story.letters(1)


@situation("a record whose last lock ends becomes a dead letter")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(1, share_delivery_count_limit=2, share_record_lock_duration_ms=1_000)
    story.fetch()
    story.acknowledge([(0, 0, [RELEASE])])
    story.fetch_until("a", has_records)
    story.letters(1)
    story.stored_is((0, 0, 4, 2), start=0)


@situation("a record of a session that is closed in its last delivery becomes a dead letter")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(2, share_delivery_count_limit=2)
    story.fetch()
    story.acknowledge([(0, 0, [RELEASE])])
    story.fetch_until("a", has_records)
    story.fetch(epoch=CLOSE, parts=())
    story.letters(1)


@situation("a record that is rejected in its last delivery says that it was rejected")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(1, share_delivery_count_limit=2)
    story.fetch()
    story.acknowledge([(0, 0, [RELEASE])])
    story.fetch_until("a", has_records)
    story.acknowledge([(0, 0, [REJECT])])
    story.letters(1)


@situation("a gap is no dead letter")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(3)
    story.fetch()
    story.acknowledge([(0, 2, [GAP, REJECT, GAP])])
    story.await_letters(1)
    story.stored_is((1, 2, 4, 1), start=1)
    story.letters(1)


@situation("what is accepted is no dead letter, in its last delivery neither")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(3, share_delivery_count_limit=2)
    story.fetch()
    story.acknowledge([(0, 0, [ACCEPT]), (1, 2, [RELEASE])])
    story.fetch_until("a", has_records)
    story.acknowledge([(1, 2, [ACCEPT, REJECT])])
    story.await_letters(1)
    story.stored_is((2, 2, 4, 2), start=2)
    story.letters(1)


@situation("an acknowledgement that is refused makes no dead letter")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(2)
    story.acknowledge([(0, 0, [REJECT])], epoch=0)
    story.fetch()
    story.acknowledge([(0, 0, [REJECT]), (1, 5, [REJECT])])
    story.acknowledge([(0, 1, [ACCEPT, REJECT])])
    story.letters(1)


@situation("what is aborted is no dead letter")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(share_isolation_level="read_committed")
    x = Transactions(story, "x")
    x.write(2)
    x.end(committed=False)
    story.produce(1, base_timestamp=now_ms())
    story.fetch_until("a", lambda answer: bool(has_records(answer)), max_wait_ms=1_000)
    story.acknowledge([(3, 3, [REJECT])])
    story.letters(1)


@situation("a group without a topic has no dead letters")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(1, dead="")
    rejected(story)
    story.stored_is((0, 0, 4, 1), start=0)
    story.letters(0)


# --- what dead letters are -------------------------------------------------------------------------------


@situation("dead letters of partitions lie in the partitions of their numbers, from the first on again")
def _(story: LetterStory) -> None:
    story.create_dead(partitions=2)
    story.begin_letters(partitions=3)
    for partition in range(3):
        story.produce(1, partition=partition)
    parts = [("t", partition) for partition in range(3)]
    story.fetch(parts=parts, max_wait_ms=2_000, min_bytes=3 * 78)
    for count, part in enumerate(parts, 1):
        story.acknowledge({part: [(0, 0, [REJECT])]})
        story.await_letters(count, partitions=2)
    story.letters(3, partitions=2)


@situation("keys and values are copied where the group has it so, headers are not")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(copies=True)
    values = ((b"k", b"value"), (b"", b""), (b"k", None), (None, b"without a key"), (b"k", b"\x00\xff"))
    records = [Record(index, THEN, key, value, ((HEADER, b"1"),)) for index, (key, value) in enumerate(values)]
    assert story.broker.produce(story.full("t"), build_batch(records))["error_code"] == 0
    story.fetch()
    story.acknowledge([(0, 4, [REJECT])])
    story.letters(5)


@situation("keys and values are copied out of compressed batches")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(copies=True)
    records = [record(b"value %d" % number, offset_delta=number) for number in range(3)]
    fields = {"payload": gzip.compress(b"".join(records)), "attributes": GZIP}
    assert story.broker.produce(story.full("t"), batch(records, **fields))["error_code"] == 0
    story.fetch()
    story.acknowledge([(0, 2, [REJECT, ACCEPT, REJECT])])
    story.letters(2)


@situation("records that were deleted before they are rejected")
def _(story: LetterStory) -> None:
    story.create_dead()
    story.begin_letters(1, 1, 1, copies=True)
    story.fetch()
    story.delete_records(2)
    story.acknowledge([(0, 2, [REJECT])])
    story.letters(3)
    story.stored_is((0, 2, 4, 1), start=0)


@situation("a compacted topic takes dead letters with keys")
def _(story: LetterStory) -> None:
    story.create_dead(cleanup_policy="compact")
    story.begin_letters(2, copies=True)
    story.fetch()
    story.acknowledge([(0, 1, [REJECT])])
    story.letters(2)


# --- dead letters that cannot be written -----------------------------------------------------------------


@situation("a topic that is missing is not created")
def _(story: LetterStory) -> None:
    story.begin_letters(1)
    rejected(story)
    story.unwritten(ONE_REJECTED)
    story.create_dead()
    story.letters_if_waiting(1)
    story.stored_is((0, 0, 4, 1), start=0)


@situation("a topic that is missing is created where brokers may")
def _(story: LetterStory) -> None:
    story.let_topics_be_created(allowed=True)
    try:
        story.begin_letters(1)
        rejected(story)
        story.letters(1)
    finally:
        story.let_topics_be_created(allowed=False)
    keys = (ALLOWED, "cleanup.policy", "message.timestamp.type")
    story.note(f"created: {story.configs(TOPIC_RESOURCE, story.dead, keys)}")


@situation("a topic whose name begins otherwise")
def _(story: LetterStory) -> None:
    story.dead = story.full("dead")
    story.create_dead()
    story.begin_letters(1)
    rejected(story)
    story.unwritten(ONE_REJECTED)
    story.let_names_begin("run")
    try:
        story.letters_if_waiting(1)
    finally:
        story.let_names_begin(DLQ)
    story.stored_is((0, 0, 4, 1), start=0)


@situation("a topic that is not for dead letters")
def _(story: LetterStory) -> None:
    story.create_dead(errors_deadletterqueue_group_enable="false")
    story.begin_letters(1)
    rejected(story)
    story.unwritten(ONE_REJECTED)
    story.configure_dead(errors_deadletterqueue_group_enable="true")
    story.letters_if_waiting(1)
    story.stored_is((0, 0, 4, 1), start=0)


@situation("a compacted topic takes no dead letter without a key")
def _(story: LetterStory) -> None:
    story.create_dead(cleanup_policy="compact")
    story.begin_letters(1)
    rejected(story)
    story.unwritten(ONE_REJECTED)
    story.configure_dead(cleanup_policy="delete")
    story.letters_if_waiting(1)
    story.stored_is((0, 0, 4, 1), start=0)


@situation("a copy is larger than the topic takes")
def _(story: LetterStory) -> None:
    story.create_dead(max_message_bytes=600)
    story.begin_letters(copies=True)
    records = [record(b"x" * 1_000)]
    assert story.broker.produce(story.full("t"), batch(records))["error_code"] == 0
    rejected(story)
    story.stored_is((0, 0, 4, 1), start=0)
    story.letters(0)
