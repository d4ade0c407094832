"""The law of the prepared way: it leaves what the general way leaves, for any bytes, whatever changes in between.

Two brokers get the same requests and the same changes of state; one of them prepares nothing. After each step both must
have the same answers, files, producers, counters, log lines and timers.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sordini.broker.network.ports import DelayedResponse, Peer
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, WireError
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, stamp_max_timestamp
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import LeaderEpoch, Offset, TopicPartition
from sordini.replication.follower_truncation import FetchPosition
from sordini.replication.leader import Term
from sordini.storage.errors import StorageError
from tests.support.builders import a_batch
from tests.support.parts import examples
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, a_peer, joined, topic_id_of

PRODUCE = ApiKey.PRODUCE
ORDERS = TopicPartition("orders", 0)
ROUNDS = 100
"""Of the loop after each step. The longest chain of awaits, a flush and an answer in slices, takes fewer than ten."""
VERSIONS = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)


class Side:
    """One broker and what it has answered."""

    def __init__(self, broker: UnitBroker) -> None:
        self.broker = broker
        self.peers = [a_peer(), a_peer()]
        self.answers: list[Any] = []
        self.delayed: list[DelayedResponse] = []
        self._read: dict[DelayedResponse, bytes] = {}

    def send(self, peer: Peer, frame: bytes) -> None:
        try:
            answer = self.broker.parts.dispatcher.serve(peer, memoryview(bytearray(frame)))
        except WireError as error:
            self.answers.append(f"closed: {error}")
            return
        if isinstance(answer, DelayedResponse):
            self.answers.append(f"delayed, {answer.blocks_pipeline}")
            self.delayed.append(answer)
        else:
            self.answers.append(None if answer is None else joined(answer))

    def _read_once(self, answered: DelayedResponse) -> bytes:
        """As a connection does: slices are released, and their file may be closed afterwards."""
        if answered not in self._read:
            assert answered.parts is not None
            self._read[answered] = joined(list(answered.parts))
        return self._read[answered]

    def seen(self) -> dict[str, Any]:
        """All that the two ways must leave alike."""
        parts = self.broker.parts
        partition = parts.replicas.get(*ORDERS)
        log = None if partition is None else partition.log
        return {
            "answers": self.answers,
            "delayed": [(one.is_answered, None if one.parts is None else self._read_once(one)) for one in self.delayed],
            "files": self.broker.disk.tree(),
            "log": log and (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point),
            "epochs": log and log.epochs.entries,
            "producers": log and sorted(log.producers.entries()),
            "windows": log and {key: one.sent for key, one in log.producers._producers.items()},
            "counters": sorted(
                (one.api.key, one.version, one.requests, one.errors)
                for one in parts.dispatcher.versioned_apis
                if one.requests or one.errors
            ),
            "lines": self.broker.log.lines,
            "timers": [timer.seconds for timer in self.broker.timers.waiting],
            "waiting": partition and (len(partition.purgatory), len(partition.pending_commits)),
        }


# What is sent.


def batches() -> st.SearchStrategy[bytes]:
    """Batches that a client may send: usual ones, and ones that break a rule or need another way."""

    @st.composite
    def batch(draw: st.DrawFn) -> bytes:
        count = draw(st.sampled_from((1, 1, 1, 2, 30)))
        time_step = draw(st.sampled_from((0, 0, 0, 5, -7)))
        records = [
            Record(
                number,
                1_000_000 + time_step * (number + (count == 1)),
                draw(st.sampled_from((None, None, b"", b"key", bytes(70)))),
                draw(st.sampled_from((None, b"value", bytes(100), bytes(9000)))),
                draw(st.sampled_from(((), (), (("header", b"x"),)))),
            )
            for number in range(count)
        ]
        fields: dict[str, Any] = {"codec": draw(st.sampled_from((0, 0, 0, 1, 3, 4)))}
        if draw(st.booleans()):
            fields["producer_id"] = draw(st.sampled_from((7, 8)))
            fields["producer_epoch"] = draw(st.sampled_from((0, 0, 0, 1)))
            fields["base_sequence"] = draw(st.sampled_from((0, 1, 1, 2, 3, 4, -1)))
            fields["transactional"] = draw(st.sampled_from((False, False, True)))
        fields["control"] = draw(st.integers(0, 20)) == 0
        whole = bytearray(a_batch(records, **fields))
        if draw(st.integers(0, 10)) == 0:
            stamp_max_timestamp(whole, 0, draw(st.sampled_from((-1, -9, 5))))
        return bytes(whole)

    return batch()


def frame_of(
    version: int, batch: bytes, acks: int, client_id: str | None, transactional_id: str | None, index: int, topic: str
) -> bytes:
    row = PartitionProduceData(index=index, records=memoryview(batch))
    named = TopicProduceData(name=topic, topic_id=topic_id_of(topic), partition_data=[row])
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=30, topic_data=[named])
    return request_header(APIS[PRODUCE], version, 4711, client_id) + codecs.encode(request, version)


@st.composite
def sends(draw: st.DrawFn) -> tuple[str, Any]:
    frame = frame_of(
        draw(st.sampled_from(VERSIONS)),
        draw(batches()),
        draw(st.sampled_from((1, 1, 0, -1, 2))),
        draw(st.sampled_from(("a", None))),
        draw(st.sampled_from((None, None, "t"))),
        draw(st.sampled_from((0, 0, 0, 1))),
        draw(st.sampled_from(("orders", "orders", "orders", "__consumer_offsets", "missing"))),
    )
    return "send", (draw(st.sampled_from((0, 0, 1))), frame)


@st.composite
def repeats(draw: st.DrawFn) -> tuple[str, Any]:
    """The last request again: as it was, cut or prolonged, with bytes changed, or with the next sequence."""
    kind = draw(
        st.sampled_from(("same", "next", "next", "next", "next", "patched", "patched", "mutated", "cut", "longer"))
    )
    return "again", (kind, draw(st.integers(2, 400)), draw(st.sampled_from((1, 2, 4, 8, 16, 32, 64, 128, 255))))


CHANGES = (
    "new epoch",
    "follow",
    "two in sync",
    "follower fetches",
    "delete",
    "delete and create",
    "create with another id",
    "rules",
    "compacted",
    "append time",
    "flush after two",
    "min isr",
    "truncate",
    "trim",
    "take offline",
    "disk full",
    "disk heals",
    "expire producers",
    "wait for records",
    "timers",
    "doubt",
    "coordinators",
)


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """A request of an ordinary shape that was served twice, then anything."""
    fields: dict[str, Any] = {"codec": draw(st.sampled_from((0, 0, 3)))}
    if draw(st.booleans()):
        fields |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    keys = draw(st.sampled_from((None, b"key")))
    value = draw(st.sampled_from((b"v", bytes(100), bytes(20_000))))
    batch = a_batch(draw(st.sampled_from((1, 1, 1, 3))), key=keys, value=value, **fields)
    version, acks = draw(st.sampled_from(VERSIONS)), draw(st.sampled_from((1, -1, 0)))
    usual = frame_of(version, batch, acks, "a", None, 0, "orders")
    is_replicated = draw(st.integers(0, 3)) == 0
    opening = [("change", "two in sync")] if is_replicated else []
    change = st.tuples(st.just("change"), st.sampled_from(CHANGES))
    # Repeats first: shrunk scripts consist of them.
    step = st.one_of(repeats(), repeats(), repeats(), repeats(), change, sends(), st.just(("send", (0, usual))))
    return [*opening, ("send", (0, usual)), ("again", ("next", 2, 1)), *draw(st.lists(step, max_size=14))]


# What is changed.


def changed(side: Side, kind: str, number: int) -> Callable[[], Any] | None:
    """A change that needs no await."""
    broker, replicas = side.broker, side.broker.parts.replicas
    partition = replicas.get(*ORDERS)
    if kind == "timers":
        return broker.timers.fire
    if kind == "doubt":
        return broker.contact.expired
    if kind == "disk full":
        return lambda: broker.disk.fail_while(lambda call, path: call == "write", errno.ENOSPC)
    if kind == "disk heals":
        return broker.disk.heal_faults
    if kind == "delete":
        return lambda: replicas.stop_replica(ORDERS, delete=True)
    if partition is None:
        return None
    log, rules = partition.log, partition.settings.rules

    def configure(**fields: Any) -> None:
        partition.settings = partition.settings._replace(**fields)
        log.config = partition.settings.log
        partition.flushed()

    term = Term(LeaderEpoch(partition.leader_epoch + 1), (ME,), (ME,), number)
    by_kind: dict[str, Callable[[], Any]] = {
        "new epoch": lambda: partition.become_leader(ME, term, broker.clock.ms),
        "two in sync": lambda: partition.become_leader(ME, term._replace(isr=(ME, OTHER), replicas=(ME, OTHER)), 0),
        "follow": lambda: partition.become_follower(OTHER, term),
        "follower fetches": lambda: (
            partition.leader is not None
            and partition.update_follower_fetch_state(
                OTHER,
                FetchPosition(Offset(log.log_end_offset), LeaderEpoch(partition.leader_epoch), -1),
                broker.clock.ms,
            )
        ),
        "rules": lambda: configure(rules=rules._replace(message_bytes_max=200)),
        "compacted": lambda: configure(rules=rules._replace(key_required=True)),
        "append time": lambda: configure(
            rules=rules._replace(log_append_time=True), log=log.config._replace(log_append_time=True)
        ),
        "flush after two": lambda: configure(log=log.config._replace(flush_messages=2)),
        "min isr": lambda: configure(min_insync_replicas=2),
        "truncate": lambda: log.truncate_to(log.log_end_offset - 1),
        "trim": lambda: log.advance_log_start(log.high_watermark),
        "take offline": lambda: replicas.directory_failed(log.log_dir.take_offline(OSError(errno.EIO, "broken"))),
        "expire producers": lambda: log.expire_producers(1 << 60),
    }
    return by_kind.get(kind)


async def change(side: Side, kind: str, number: int) -> None:
    broker = side.broker
    if kind == "delete and create":
        broker.parts.replicas.stop_replica(ORDERS, delete=True)
        await broker.lead("orders", epoch=number)
    elif kind == "create with another id":
        broker.parts.replicas.stop_replica(ORDERS, delete=True)
        await broker.lead("orders", epoch=number, topic_id=topic_id_of("else"))
    elif kind == "coordinators":
        await broker.lead("__transaction_state", epoch=number)
    elif kind == "wait for records":
        topic = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, fetch_offset=0)])
        fetch = FetchRequest(replica_id=-1, max_wait_ms=500, min_bytes=1 << 20, max_bytes=1 << 20, topics=[topic])
        header = request_header(APIS[ApiKey.FETCH], 4, 4711, "f")
        side.send(a_peer(), header + codecs.encode(fetch, 4))
    else:
        action = changed(side, kind, number)
        if action is not None:
            action()


async def take(side: Side, step: tuple[str, Any], number: int, last: bytes) -> bytes:
    """One step; the frame that was sent last."""
    what, how = step
    if what == "change":
        try:
            await change(side, how, number)
        except (BrokerError, StorageError, OSError, AssertionError) as error:
            side.answers.append(repr(error))
        return last
    if what == "send":
        peer, last = side.peers[how[0]], how[1]
    else:
        peer, last = side.peers[0], varied(last, *how)
    side.send(peer, last)
    return last


def varied(frame: bytes, kind: str, position: int, byte: int) -> bytes:
    changed_frame = bytearray(frame)
    if kind == "mutated" and len(frame) > 2:
        changed_frame[2 + position % (len(frame) - 2)] ^= byte
    elif kind == "cut":
        del changed_frame[-(1 + position % 9) :]
    elif kind == "longer":
        changed_frame += bytes([byte & 1]) * (1 + position % 5)
    elif kind == "patched":
        return patched(changed_frame, position, byte)
    elif kind == "next":
        return next_sequence(changed_frame)
    return bytes(changed_frame)


def batch_start(frame: bytearray) -> int | None:
    """Where the batch begins, if there is one: by its leader epoch of -1 and its format."""
    magic = frame.find(b"\xff\xff\xff\xff\x02")
    return magic - 12 if magic >= 12 and len(frame) >= magic + 49 else None


def patched(frame: bytearray, position: int, byte: int) -> bytes:
    """One byte of the batch changed, and its CRC right again: only the rule about that byte can refuse it."""
    start = batch_start(frame)
    if start is not None:
        frame[start + position % 72 % (len(frame) - start)] ^= byte
        correct_crc(frame, start)
    return bytes(frame)


def next_sequence(frame: bytearray) -> bytes:
    """The batch that an idempotent producer sends next, with the right CRC."""
    start = batch_start(frame)
    if start is None:
        return bytes(frame)
    count = int.from_bytes(frame[start + 57 : start + 61], "big", signed=True)
    sequence = int.from_bytes(frame[start + 53 : start + 57], "big", signed=True)
    if sequence >= 0:
        frame[start + 53 : start + 57] = ((sequence + count) & 0x7FFFFFFF).to_bytes(4, "big")
        correct_crc(frame, start)
    return bytes(frame)


def correct_crc(frame: bytearray, start: int) -> None:
    end = min(start + 12 + int.from_bytes(frame[start + 8 : start + 12], "big"), len(frame))
    frame[start + 17 : start + 21] = crc32c(bytes(frame[start + 21 : end])).to_bytes(4, "big")


async def run_rounds(broker: UnitBroker) -> None:
    """Let tasks go on as far as they can: one that waits for the other replica waits for the timers."""
    for _ in range(ROUNDS):
        if not broker.tasks and not broker.parts.dispatcher.slices.waiting:
            return
        await broker.run_round()


async def both_ways(script: list[tuple[str, Any]]) -> int:
    """Run a script on both brokers; how many requests were served in the prepared way."""
    async with a_broker() as one, a_broker() as other:
        prepared, general = Side(one), Side(other)
        other.parts.dispatcher.prepared.preparers.clear()
        for side in (prepared, general):
            await side.broker.lead("orders")
            await side.broker.lead("__consumer_offsets")
        lasts = [frame_of(9, a_batch(1), 1, "a", None, 0, "orders")] * 2
        for number, step in enumerate(script, 1):
            lasts = [
                await take(side, step, number, last) for side, last in zip((prepared, general), lasts, strict=True)
            ]
            for side in (prepared, general):
                await run_rounds(side.broker)
            assert prepared.seen() == general.seen(), f"after step {number}"
        for side in (prepared, general):
            side.broker.timers.fire()
            await side.broker.settled()
        assert prepared.seen() == general.seen(), "when all times are over"
        assert not general.broker.parts.dispatcher.prepared.by_prefix
        return len(one.parts.dispatcher.prepared.by_prefix)


@given(scripts())
@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_the_prepared_way_leaves_what_the_general_way_leaves(script: list[tuple[str, Any]]) -> None:
    asyncio.run(both_ways(script))
