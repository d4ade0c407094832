"""Situations of share sessions, ShareFetch and ShareAcknowledge."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.compat.shares.story import (
    ACCEPT,
    CLOSE,
    PATIENCE_MS,
    REJECT,
    RELEASE,
    RENEW,
    ShareStory,
    has_records,
)
from tests.compat.situations.batches import batch
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import produce_fields

Play = Callable[[ShareStory], None]


class Situation(NamedTuple):
    """One, by its sentence."""

    sentence: str
    play: Play


SITUATIONS: list[Situation] = []


def situation(sentence: str) -> Callable[[Play], Play]:
    """Register a function."""

    def register(play: Play) -> Play:
        SITUATIONS.append(Situation(sentence, play))
        return play

    return register


def now_ms() -> int:
    """As of markers: a segment is rolled where a record is much younger than the first."""
    return int(time.time() * 1000)


def begun(story: ShareStory, *sizes: int, stamped: bool = False, **fields: Any) -> None:
    """A group of one member with these batches; `stamped`: of now."""
    story.begin(**fields)
    story.produce(*(sizes or (3,)), **({"base_timestamp": now_ms()} if stamped else {}))


# --- sessions ------------------------------------------------------------------------------------------


@situation("the first fetch opens a session and acquires")
def _(story: ShareStory) -> None:
    begun(story, 3, 2)
    story.fetch()
    story.fetch(parts=())
    story.fetch(parts=())


@situation("epoch 0 again opens another session and releases nothing")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch()
    story.fetch(epoch=0)
    story.fetch(parts=(), max_wait_ms=1_000)


@situation("a session that is not open")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch(epoch=1)
    story.fetch(epoch=CLOSE, parts=())
    story.acknowledge([(0, 0, [ACCEPT])], epoch=1)
    story.acknowledge([(0, 0, [ACCEPT])], epoch=CLOSE)
    story.acknowledge([(0, 0, [ACCEPT])], epoch=0)
    story.acknowledge({}, epoch=0)


@situation("a session epoch that is not the next")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch()
    for epoch in (2, 5, 2**31 - 1, -2):
        story.fetch(epoch=epoch)
        story.acknowledge([(0, 0, [ACCEPT])], epoch=epoch)
    story.acknowledge([(0, 0, [ACCEPT])], epoch=0)
    story.acknowledge([(0, 0, [ACCEPT])], epoch=1)


@situation("acknowledgements do not open a session")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch(said={("t", 0): [(0, 0, [ACCEPT])]})
    story.fetch()


@situation("a session is closed with its last acknowledgements")
def _(story: ShareStory) -> None:
    begun(story, 3, members=("a", "b"))
    story.fetch()
    story.fetch(said={("t", 0): [(0, 0, [ACCEPT])]}, epoch=CLOSE, parts=())
    story.stored_is((1, 2, 0, 1), start=1)
    story.fetch("b")


@situation("a session is closed by an acknowledgement")
def _(story: ShareStory) -> None:
    begun(story, 3, members=("a", "b"))
    story.fetch()
    story.acknowledge([(1, 1, [ACCEPT])], epoch=CLOSE)
    story.fetch_until("b", has_records)


@situation("a session is closed by a fetch that names partitions")
def _(story: ShareStory) -> None:
    begun(story, 3)
    story.fetch()
    story.fetch(epoch=CLOSE)
    story.fetch(epoch=CLOSE)


@situation("a session is closed with an acknowledgement that is wrong")
def _(story: ShareStory) -> None:
    begun(story, 3)
    story.fetch()
    story.acknowledge([(1, 9, [ACCEPT])], epoch=CLOSE)
    story.fetch(epoch=1)


@situation("partitions of a session are remembered and forgotten")
def _(story: ShareStory) -> None:
    story.begin("t", "u")
    story.produce(2)
    story.produce(1, topic="u")
    story.fetch()
    story.fetch(parts=[("u", 0)])
    story.produce(1)
    story.produce(1, topic="u")
    story.fetch(parts=(), forgotten=[("u", 0)])
    story.fetch(parts=())
    story.fetch(parts=[("u", 0)])


@situation("a forgotten partition may be acknowledged still")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch()
    story.fetch(parts=(), forgotten=[("t", 0)])
    story.acknowledge([(0, 1, [ACCEPT])])
    story.fetch(said={("t", 0): [(2, 2, [ACCEPT])]}, parts=(), forgotten=[("t", 0)])
    story.stored()


@situation("a partition that is forgotten in the request that names it")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch(forgotten=[("t", 0)])
    story.fetch(forgotten=[("t", 0)])
    story.fetch(parts=())


@situation("topics and partitions that are unknown")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch(parts=[("?", 0), ("t", 7), ("t", 0)])
    story.fetch(parts=())
    story.acknowledge({("?", 0): [(0, 0, [ACCEPT])], ("t", 7): [(0, 0, [ACCEPT])], ("t", 0): [(0, 0, [ACCEPT])]})
    story.fetch(said={("?", 0): [(0, 0, [ACCEPT])]}, parts=())


@situation("a session of no partitions")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch(parts=())
    story.fetch()
    story.fetch(parts=(), forgotten=[("t", 0)])
    story.fetch(parts=())


@situation("names that are empty or null")
def _(story: ShareStory) -> None:
    begun(story)
    for name in ("", None):
        story.fetch(group_id=name, epoch=0)
        story.fetch(member_id=name, epoch=0)
        story.acknowledge([(0, 0, [ACCEPT])], group_id=name, epoch=1)
        story.acknowledge([(0, 0, [ACCEPT])], member_id=name, epoch=1)


@situation("a member id that is no member of the group")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch("stranger")
    story.acknowledge([(0, 0, [ACCEPT])], "stranger")


@situation("a group that has no members")
def _(story: ShareStory) -> None:
    begun(story, members=())
    story.fetch("stranger")


@situation("what is held is released when the connection is lost")
def _(story: ShareStory) -> None:
    begun(story, 3, members=("a", "b"))
    story.fetch()
    story.disconnect("a")
    story.fetch_until("b", has_records)
    story.fetch("a", epoch=1)


@situation("what is held stays so when the member leaves")
def _(story: ShareStory) -> None:
    begun(story, 3, members=("a", "b"))
    story.fetch()
    story.leave("a")
    story.fetch("b", max_wait_ms=1_000)
    story.fetch("a", epoch=1)


@situation("another connection goes on with a session")
def _(story: ShareStory) -> None:
    begun(story, 3)
    story.fetch()
    story.fetch("other", member_id="a", epoch=1)
    story.disconnect("other")
    story.fetch(parts=(), epoch=2)


# --- fetches -------------------------------------------------------------------------------------------


@situation("fetches take whole batches, or by records no more than they ask for")
def _(story: ShareStory) -> None:
    begun(story, 3, 4, 2)
    story.fetch(max_records=2)
    story.fetch(max_records=2, share_acquire_mode=1)
    story.fetch(max_records=5, share_acquire_mode=1)
    story.fetch(max_records=5)


@situation("ranges of acquired records end with the batch size")
def _(story: ShareStory) -> None:
    begun(story, 3, 4, 2, 6)
    story.fetch(batch_size=4)


@situation("an acquire mode that is unknown")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch(share_acquire_mode=2)
    story.fetch(share_acquire_mode=-1, epoch=0)
    story.fetch(epoch=0)


@situation("sizes of a fetch that are zero or negative")
def _(story: ShareStory) -> None:
    begun(story)
    story.fetch(max_records=0)
    story.fetch(max_records=-1)
    story.fetch(batch_size=0)
    story.fetch(max_bytes=0, epoch=0)
    story.fetch(min_bytes=-1, max_wait_ms=-1, epoch=0)
    story.fetch(max_bytes=-1, epoch=0)


@situation("a fetch of few bytes gets one batch")
def _(story: ShareStory) -> None:
    begun(story, 3, 4, 2)
    story.fetch(max_bytes=1)
    story.fetch(max_bytes=1)


@situation("a fetch of the bytes of two batches and a half")
def _(story: ShareStory) -> None:
    begun(story, 1, 1, 1, 1)
    story.fetch(max_bytes=190)


@situation("a fetch waits for min bytes until its time")
def _(story: ShareStory) -> None:
    begun(story, 3)
    story.fetch(min_bytes=1 << 19)
    sent = story.send_fetch(min_bytes=100, max_wait_ms=PATIENCE_MS)
    story.produce(1)
    story.produce(1)
    sent.answer()


@situation("a fetch waits for new records")
def _(story: ShareStory) -> None:
    begun(story, 1)
    story.fetch()
    sent = story.send_fetch(parts=(), max_wait_ms=PATIENCE_MS)
    story.produce(2)
    sent.answer()


@situation("a fetch waits for records that another member releases")
def _(story: ShareStory) -> None:
    begun(story, 3, members=("a", "b"))
    story.fetch()
    sent = story.send_fetch("b", max_wait_ms=PATIENCE_MS)
    story.acknowledge([(1, 2, [RELEASE])])
    sent.answer()
    story.stored()


@situation("a fetch waits for records of a session that is closed")
def _(story: ShareStory) -> None:
    begun(story, 3, members=("a", "b"))
    story.fetch()
    sent = story.send_fetch("b", max_wait_ms=PATIENCE_MS)
    story.fetch(epoch=CLOSE, parts=())
    sent.answer()


@situation("locks end, and a waiting fetch gets the records")
def _(story: ShareStory) -> None:
    begun(story, 3, members=("a", "b"), share_record_lock_duration_ms=1_000)
    story.fetch()
    story.fetch("b", max_wait_ms=PATIENCE_MS)
    story.acknowledge([(0, 0, [ACCEPT])])
    story.acknowledge([(0, 2, [ACCEPT])], "b")
    story.stored()


@situation("no more records are in flight than the group allows")
def _(story: ShareStory) -> None:
    begun(story, 60, 60, 60, members=("a", "b"), share_partition_max_record_locks=100)
    story.fetch()
    story.fetch("b")
    sent = story.send_fetch("b", parts=(), max_wait_ms=PATIENCE_MS)
    story.acknowledge([(0, 59, [ACCEPT])])
    sent.answer()


@situation("two partitions, and few records at once")
def _(story: ShareStory) -> None:
    story.begin(partitions=2)
    for index in (0, 1):
        story.produce(2, 2, partition=index)
    for _ in range(5):
        story.fetch(parts=[("t", 0), ("t", 1)], max_records=2)


@situation("a partition that is named twice")
def _(story: ShareStory) -> None:
    begun(story, 2)
    story.fetch(parts=[("t", 0), ("t", 0)])


@situation("the groups of a topic have nothing to do with each other")
def _(story: ShareStory) -> None:
    begun(story, 2)
    other = story.broker.name("other-group")
    story.set(other, **{"share.auto.offset.reset": "earliest"})
    story.join("o", group=other)
    story.fetch()
    story.fetch("o", group_id=other)
    story.acknowledge([(0, 1, [ACCEPT])])
    story.acknowledge([(0, 1, [REJECT])], "o", group_id=other)


@situation("version 1 has neither modes nor renewals")
def _(story: ShareStory) -> None:
    begun(story, 3)
    story.fetch(version=1)
    story.acknowledge([(0, 0, [RENEW])], version=1)
    story.acknowledge([(0, 2, [ACCEPT])], version=1)


@situation("a group reads from the end")
def _(story: ShareStory) -> None:
    begun(story, 3, share_auto_offset_reset="latest")
    story.fetch()
    story.produce(1)
    story.fetch(parts=())
    story.acknowledge([(3, 3, [ACCEPT])])
    story.stored()


@situation("a group reads what is younger than a duration")
def _(story: ShareStory) -> None:
    begun(story, 3, share_auto_offset_reset="by_duration:PT1H")
    story.produce(2, base_timestamp=now_ms())
    story.fetch()
    story.stored()


@situation("another delivery count limit while records are in flight")
def _(story: ShareStory) -> None:
    begun(story, 1, share_delivery_count_limit=5)
    for _ in range(2):
        story.fetch()
        story.acknowledge([(0, 0, [RELEASE])])
    story.set(**{"share.delivery.count.limit": 2})
    story.fetch_until("a", has_records)
    story.acknowledge([(0, 0, [RELEASE])])
    story.stored()


# --- acknowledgements ----------------------------------------------------------------------------------


@situation("each type of acknowledgement")
def _(story: ShareStory) -> None:
    begun(story, 4)
    story.fetch()
    story.acknowledge([(0, 3, [0, ACCEPT, RELEASE, REJECT])])
    story.stored()
    story.fetch(parts=())


@situation("acknowledgements of a request that contradict each other")
def _(story: ShareStory) -> None:
    begun(story, 9)
    story.fetch()
    story.acknowledge([(0, 3, [ACCEPT]), (2, 5, [ACCEPT])])
    story.acknowledge([(4, 5, [ACCEPT]), (0, 1, [ACCEPT])])
    story.acknowledge([(0, 1, [ACCEPT]), (1, 2, [ACCEPT])])
    story.acknowledge([(0, 1, [ACCEPT]), (0, 1, [ACCEPT])])
    story.acknowledge([(0, 1, [ACCEPT]), (4, 5, [REJECT])])
    story.stored()


@situation("types of acknowledgements that are wrong")
def _(story: ShareStory) -> None:
    begun(story, 5)
    story.fetch()
    for types in ([], [ACCEPT, ACCEPT], [ACCEPT] * 6, [5], [-1], [4], [0, 1, 2, 3, 4]):
        story.acknowledge([(0, 4, types)])
        story.fetch(said={("t", 0): [(0, 4, types)]}, parts=())
    story.acknowledge([(4, 2, [ACCEPT])])
    story.acknowledge([(-1, 2, [ACCEPT])])
    story.acknowledge([])
    story.stored()


@situation("acknowledgements of what is not held")
def _(story: ShareStory) -> None:
    begun(story, 3, 3, members=("a", "b"))
    story.fetch(max_records=3)
    story.fetch("b")
    story.acknowledge([(3, 5, [ACCEPT])])
    story.acknowledge([(0, 6, [ACCEPT])])
    story.acknowledge([(7, 9, [ACCEPT])])
    story.acknowledge([(2, 3, [ACCEPT])])
    story.acknowledge([(0, 2, [ACCEPT])])
    story.acknowledge([(0, 2, [ACCEPT])])
    story.acknowledge([(0, 3, [ACCEPT])])
    story.fetch(said={("t", 0): [(4, 4, [ACCEPT])]}, parts=())
    story.stored()


@situation("nothing has been acquired")
def _(story: ShareStory) -> None:
    story.begin()
    story.fetch()
    story.acknowledge([(0, 0, [ACCEPT])])


@situation("acknowledgements with a fetch")
def _(story: ShareStory) -> None:
    begun(story, 2, 2)
    story.fetch(max_records=2)
    story.fetch(said={("t", 0): [(0, 1, [ACCEPT])]}, parts=(), max_records=1)
    story.fetch(said={("t", 0): [(2, 3, [RELEASE])]}, parts=())
    story.stored()


@situation("one acknowledgement of two partitions is wrong")
def _(story: ShareStory) -> None:
    story.begin(partitions=2)
    for _ in range(2):  # Both are loaded then.
        story.fetch(parts=[("t", 0), ("t", 1)])
    for index in (0, 1):
        story.produce(2, partition=index)
    story.fetch(parts=())
    story.acknowledge({("t", 0): [(0, 5, [ACCEPT])], ("t", 1): [(0, 1, [ACCEPT])]})


@situation("records are archived after their last delivery")
def _(story: ShareStory) -> None:
    begun(story, 1, 1, share_delivery_count_limit=2)
    story.fetch()
    story.acknowledge([(0, 0, [RELEASE])])
    story.fetch(parts=())
    story.acknowledge([(0, 0, [RELEASE])])
    story.stored()
    story.fetch(parts=())


@situation("locks are renewed")
def _(story: ShareStory) -> None:
    begun(story, 3, members=("a", "b"), share_record_lock_duration_ms=2_000)
    story.fetch()
    story.acknowledge([(0, 0, [RENEW])])
    story.acknowledge([(0, 0, [RENEW])], is_renew_ack=True)
    story.acknowledge([(0, 0, [RENEW]), (1, 1, [ACCEPT])], is_renew_ack=True)
    story.acknowledge([(0, 9, [RENEW])], is_renew_ack=True)
    story.acknowledge([(1, 1, [ACCEPT])], is_renew_ack=True)


@situation("locks are renewed by a fetch that fetches nothing")
def _(story: ShareStory) -> None:
    begun(story, 3)
    story.fetch()
    renewed = {("t", 0): [(0, 2, [RENEW])]}
    story.fetch(said=renewed, is_renew_ack=True)
    zeros = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0}
    story.fetch(said=renewed, is_renew_ack=True, epoch=1, **zeros)
    story.fetch(said=renewed, is_renew_ack=True, epoch=2, **{**zeros, "max_wait_ms": 1})
    story.fetch(said={("t", 0): [(0, 2, [ACCEPT])]}, parts=(), is_renew_ack=True, epoch=2, **zeros)
    story.produce(1)
    story.fetch(parts=(), is_renew_ack=True, **zeros)


@situation("renewals that the group does not allow")
def _(story: ShareStory) -> None:
    begun(story, 3, share_renew_acknowledge_enable="false")
    story.fetch()
    story.acknowledge([(0, 0, [RENEW])], is_renew_ack=True)


# --- the log -------------------------------------------------------------------------------------------


@situation("records are deleted below what is held and what is available")
def _(story: ShareStory) -> None:
    begun(story, 2, 2, 2, 2)
    story.fetch(max_records=3)
    story.delete_records(3)
    story.acknowledge([(0, 1, [ACCEPT])])
    story.acknowledge([(2, 3, [ACCEPT])])
    story.stored()
    story.fetch(parts=())


@situation("records are deleted beyond all that is in flight")
def _(story: ShareStory) -> None:
    begun(story, 2, 2, 2)
    story.fetch(max_records=1)
    story.delete_records(5)
    story.fetch_until("a", has_records, parts=())
    story.acknowledge([(0, 1, [ACCEPT])])
    story.acknowledge([(5, 5, [ACCEPT])])
    story.stored()


@situation("a topic is deleted")
def _(story: ShareStory) -> None:
    begun(story, 2)
    story.fetch()
    answer = story.broker.ask("DeleteTopics", 5, topic_names=[story.full("t")], timeout_ms=10_000)
    assert answer["responses"][0]["error_code"] == 0
    story.fetch_until("a", lambda answer: bool(answer["responses"]), parts=())
    story.acknowledge([(0, 1, [ACCEPT])])


class Transactions:
    """Transactional batches of one producer."""

    def __init__(self, story: ShareStory, name: str) -> None:
        self._story, self._id = story, story.broker.name(name)
        self._sequence = 0
        until(
            lambda: story.broker.ask("FindCoordinator", 4, key_type=1, coordinator_keys=[self._id]),
            lambda seen: seen["coordinators"][0]["error_code"] == 0,
        )
        found = until(
            lambda: story.broker.ask("InitProducerId", 3, transactional_id=self._id, transaction_timeout_ms=60_000),
            lambda seen: seen["error_code"] == 0,
        )
        self._producer = {"producer_id": found["producer_id"], "producer_epoch": found["producer_epoch"]}

    def write(self, *sizes: int) -> None:
        topics = [{"name": self._story.full("t"), "partitions": [0]}]
        fields = {"v3_and_below_transactional_id": self._id, "v3_and_below_producer_id": self._producer["producer_id"]}
        fields |= {"v3_and_below_producer_epoch": self._producer["producer_epoch"], "v3_and_below_topics": topics}
        until(
            lambda: self._story.broker.ask("AddPartitionsToTxn", 3, **fields),
            lambda seen: (
                seen["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"] == 0
            ),
        )
        for size in sizes:
            self._write(size)
        self._story.note(f"{self._id.rpartition('-')[2]} writes {', '.join(map(str, sizes))}")

    def _write(self, size: int) -> None:
        fields = {"attributes": 0x10, "base_sequence": self._sequence, "base_timestamp": now_ms(), **self._producer}
        records = batch(size, **fields)
        self._sequence += size
        fields = produce_fields(self._story.full("t"), records)
        answer = self._story.broker.ask("Produce", 9, **{**fields, "transactional_id": self._id})
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer

    def end(self, *, committed: bool) -> None:
        end = self._story.log_end()
        until(
            lambda: self._story.broker.ask(
                "EndTxn", 3, transactional_id=self._id, committed=committed, **self._producer
            ),
            lambda seen: seen["error_code"] == 0,
        )
        assert until(self._story.log_end, lambda seen: seen > end) == end + 1  # The marker is written.
        self._story.note(f"{self._id.rpartition('-')[2]} {'commits' if committed else 'aborts'}")


@situation("read_uncommitted: records of transactions and their markers")
def _(story: ShareStory) -> None:
    begun(story, 1, stamped=True)
    x, y = Transactions(story, "x"), Transactions(story, "y")
    x.write(2)
    x.end(committed=True)
    y.write(2)
    y.end(committed=False)
    story.produce(1, base_timestamp=now_ms())
    story.fetch_until("a", lambda answer: bool(has_records(answer)), max_wait_ms=1_000, min_bytes=500)
    story.acknowledge([(0, 7, [1, 1, 1, 0, 1, 1, 0, 1])])
    story.stored()


@situation("read_committed: what is aborted is archived, markers are not")
def _(story: ShareStory) -> None:
    begun(story, 1, stamped=True, share_isolation_level="read_committed")
    x, y = Transactions(story, "x"), Transactions(story, "y")
    x.write(2)
    x.end(committed=True)
    y.write(2, 3)
    y.end(committed=False)
    story.produce(1, base_timestamp=now_ms())
    story.fetch_until("a", lambda answer: bool(has_records(answer)), max_wait_ms=2_000, min_bytes=700)
    story.acknowledge([(0, 3, [1, 1, 1, 0])])
    story.acknowledge([(9, 10, [0, 1])])
    story.stored()


@situation("read_committed: a transaction that is open stops the group")
def _(story: ShareStory) -> None:
    begun(story, 1, stamped=True, share_isolation_level="read_committed")
    x = Transactions(story, "x")
    x.write(2)
    story.produce(1, base_timestamp=now_ms())
    story.fetch()
    sent = story.send_fetch(parts=(), max_wait_ms=PATIENCE_MS)
    x.end(committed=True)
    sent.answer()


@situation("read_committed: nothing but aborted records")
def _(story: ShareStory) -> None:
    story.begin(share_isolation_level="read_committed")
    x = Transactions(story, "x")
    x.write(2)
    x.end(committed=False)
    story.fetch_until("a", has_records)
    story.acknowledge([(2, 2, [0])])
    story.stored()
