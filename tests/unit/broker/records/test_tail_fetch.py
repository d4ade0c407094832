"""Fetches that wait at the end of one partition are answered as every other fetch."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sordini.broker.network.ports import DelayedResponse
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import PartitionInfo, PartitionState
from sordini.replication.partition import Partition
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.fake_ports import StillClock
from tests.support.partitions import checked
from tests.support.parts import examples
from tests.support.profiled import is_ours, profiled
from tests.support.replica_pair import LeaderSide, in_virtual_time, topic_id_of
from tests.support.unit_broker import Timers, a_peer, joined, read_answer

ALL = tuple(BrokerId(number) for number in (1, 2, 3))
ME = ALL[0]
NAME = TopicPartition("orders", 0)
PLENTY = 1_000_000
FETCH = APIS[ApiKey.FETCH]


class Reader:
    """A consumer or follower, in a fetch session or without one, with one request at a time."""

    def __init__(self, side: TailSide, version: int, *, replica: int = -1, has_session: bool = True) -> None:
        self.side = side
        self.version = version
        self.replica = replica
        self.session_id, self.epoch = 0, 0 if has_session else -1
        self.requested: tuple[int, ...] = ()
        self.peer = a_peer()
        self.last_request: FetchRequest | None = None
        self.pending: DelayedResponse | None = None
        self.answers: list[bytes] = []
        self.number = 100

    def fetch(self, row: FetchPartition, **fields: Any) -> None:
        """Fetch this row; a session is sent only rows that have changed."""
        values = row.fetch_offset, row.current_leader_epoch, row.partition_max_bytes, row.last_fetched_epoch
        is_known = self.epoch > 0 and values == self.requested
        topic = FetchTopic(topic=NAME.topic, topic_id=topic_id_of(NAME.topic), partitions=[row])
        request = FetchRequest(
            topics=[] if is_known else [topic], session_id=self.session_id, session_epoch=self.epoch, **fields
        )
        if self.replica >= 0 and self.version >= 15:
            request.replica_state = ReplicaState(replica_id=self.replica, replica_epoch=7)
        elif self.replica >= 0:
            request.replica_id = self.replica
        self.requested = values
        self.number += 1
        self.last_request = request
        self.send(self._encoded())

    def _encoded(self) -> bytes:
        header = request_header(FETCH, self.version, 77, "test")
        return header + codecs.encode(self.last_request, self.version)

    def send(self, frame: bytes) -> None:
        try:
            answer = self.side.dispatcher.serve(self.peer, memoryview(bytearray(frame)))
        except WireError as error:
            self.answers.append(str(error).encode())
            return
        if isinstance(answer, DelayedResponse) and not answer.is_answered:
            self.pending = answer
            answer.attach(self._deliver)
        else:
            self._received(answer.parts if isinstance(answer, DelayedResponse) else answer)

    def send_changed(self, position: int, bits: int) -> None:
        """The last request again with one byte changed, in the epoch that the session expects."""
        assert self.last_request is not None
        self.last_request.session_epoch = self.epoch
        frame = bytearray(self._encoded())
        frame[8 + position % (len(frame) - 8)] ^= bits  # Behind the correlation id.
        self.send(bytes(frame))

    def _deliver(self) -> None:
        assert self.pending is not None
        parts, self.pending = self.pending.parts, None
        self._received(parts)

    def _received(self, parts: Any) -> None:
        data = joined(parts)
        self.answers.append(data)
        answer = read_answer(ApiKey.FETCH, self.version, [data])
        if self.epoch >= 0:
            self.session_id = answer.session_id
            self.epoch = 0 if answer.error_code or not answer.session_id else self.epoch + 1

    def disconnect(self) -> None:
        if self.pending is not None:
            self.pending.abandon()
            self.pending = None


class TailSide(LeaderSide):
    """The leader of a partition, on a still clock, whose timers a test fires."""

    def __init__(self, *, has_tails: bool, quota: ReplicaQuota | None = None) -> None:
        self.clock = StillClock()
        self.timers = Timers()
        super().__init__(ME, self.clock, call_later=self.timers.call_later, has_tails=has_tails, quota=quota)
        self.topics[topic_id_of(NAME.topic)] = NAME.topic
        self.epoch = -1
        self.lead()
        self.readers = [
            Reader(self, 17, replica=2),
            Reader(self, 17, replica=3),
            Reader(self, 12, replica=3),
            *(Reader(self, version) for version in (7, 11, 12, 17, 17)),
            Reader(self, 11, has_session=False),
            Reader(self, 16, has_session=False),
        ]

    @property
    def led(self) -> Partition:
        return self.replicas.partition(*NAME)

    def lead(self, isr: tuple[BrokerId, ...] = ALL) -> None:
        self.epoch += 1
        state = PartitionState(ME, LeaderEpoch(self.epoch), isr, 1)
        info = PartitionInfo(NAME, topic_id_of(NAME.topic), ALL, state, self.epoch, is_new=self.epoch == 0)
        self.replicas.become_leader_or_follower(info)

    def append_batch(self, batch: bytes, *, notify: bool) -> None:
        self.led.append(checked(batch), 0, all_replicas=False)
        if notify:
            self.led.notify_purgatory()

    def state(self) -> dict[str, Any]:
        """All that a fetch may change, and what was answered."""
        leader, log = self.led.leader, self.led.log
        assert leader is not None
        return {
            "answers": [reader.answers for reader in self.readers],
            "pending": [reader.pending is not None for reader in self.readers],
            "high watermarks": (leader.high_watermark, log.high_watermark, log.log_end_offset),
            "replicas": [
                [getattr(replica, name) for name in type(replica).__slots__] for replica in leader.replicas.values()
            ],
            "sessions": [
                (session.number, session.epoch, session.last_used_ms, session.full_scan_ms, self._kept(session.targets))
                for session in self.sessions._sessions.values()
            ],
            "purgatories": (len(self.led.purgatory), len(self.led.log_end_waiters.purgatory)),
            "timers": len(self.timers.waiting),
            "pins": [segment.handle._pins for segment in log.segments.all()],
            "lines": self.log.lines,
        }

    @staticmethod
    def _kept(targets: dict[Any, Any]) -> list[Any]:
        return [
            (key, target.sent_high_watermark, target.sent_log_start_offset, target.quiet is not None)
            for key, target in targets.items()
        ]


OFFSETS = st.sampled_from(["end", "end", "end", "end", "committed", "committed", "behind", "beyond", "first"])
FETCHES = st.tuples(
    st.just("fetch"),
    st.integers(0, 9),
    st.tuples(
        OFFSETS,
        st.sampled_from([500, 500, 500, 0]),
        st.sampled_from([1, 1, 1, 0, 200]),
        st.sampled_from([PLENTY, PLENTY, 150, 20_000]),
        st.sampled_from([PLENTY, PLENTY, 150]),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([0, 0, 0, -1, 1, "none"]),
    ),
)
STEPS = st.one_of(
    FETCHES,
    FETCHES,
    st.tuples(st.just("all at the end"), st.sampled_from([0, 1]), st.none()),
    st.tuples(st.just("append"), st.integers(1, 3), st.sampled_from([10, 10, 100, 9000])),
    st.tuples(st.just("append"), st.integers(1, 3), st.sampled_from([10, 10, 100, 9000])),
    st.tuples(st.just("append quietly"), st.integers(1, 2), st.just(10)),
    st.tuples(st.just("transaction"), st.integers(0, 1), st.none()),
    st.tuples(st.just("time"), st.sampled_from([1, 100, 499, 500, 40_000]), st.none()),
    st.tuples(st.just("timeouts"), st.none(), st.none()),
    st.tuples(st.just("elect"), st.sampled_from([ALL, ALL[:1], ALL[:2]]), st.none()),
    st.tuples(st.just("delete records"), st.integers(0, 2), st.none()),
    st.tuples(st.just("truncate"), st.integers(0, 2), st.none()),
    st.tuples(st.just("disconnect"), st.integers(0, 9), st.none()),
    st.tuples(
        st.just("send changed"),
        st.integers(0, 9),
        st.tuples(st.integers(0, 200), st.sampled_from([0, 1, 2, 8, 128, 255])),
    ),
)


class Script:
    """Carries the same steps out on one leader."""

    def __init__(self, side: TailSide) -> None:
        self.side = side

    def carry_out(self, step: str, what: Any, how: Any) -> None:
        side = self.side
        log = side.led.log
        match step:
            case "fetch":
                self._fetch(side.readers[what], *how)
            case "all at the end":
                for reader in side.readers:
                    self._fetch(reader, "end" if reader.replica >= 0 else "committed", 500, 1, PLENTY, PLENTY, what, 0)
            case "append" | "append quietly":
                batch = a_batch(what, value=b"%04d" % log.log_end_offset + bytes(how))
                side.append_batch(batch, notify=step == "append")
            case "transaction":
                producer = log.producers._producers.get(what)  # What it sent may have been truncated.
                sequence = 0 if producer is None else producer.last_sequence + 1
                batch = an_idempotent_batch(1, producer_id=what, sequence=sequence, transactional=True, value=b"t")
                side.append_batch(batch, notify=True)
            case "time":
                side.clock.ms += what
            case "timeouts":
                side.timers.fire()
            case "elect":
                side.lead(what)
            case "delete records":
                log.advance_log_start(min(log.log_start_offset + what, log.high_watermark))
            case "truncate":
                side.led.resign()
                log.truncate_to(max(log.log_end_offset - what, log.high_watermark))
                side.lead()
            case "disconnect":
                side.readers[what].disconnect()
            case "send changed":
                reader, (position, bits) = side.readers[what], how
                if reader.pending is None and reader.last_request is not None:
                    reader.send_changed(position, bits)

    def _fetch(
        self,
        reader: Reader,
        where: str,
        max_wait_ms: int,
        min_bytes: int,
        row_bytes: int,
        bytes_max: int,
        isolation: int,
        epoch: int | str,
    ) -> None:
        if reader.pending is not None:
            return
        log, side = self.side.led.log, self.side
        offsets = {
            "end": log.log_end_offset,
            "committed": log.high_watermark,
            "behind": max(log.log_end_offset - 1, 0),
            "beyond": log.log_end_offset + 1,
            "first": log.log_start_offset,
        }
        is_follower = reader.replica >= 0
        row = FetchPartition(
            fetch_offset=offsets[where],
            current_leader_epoch=-1 if epoch == "none" else side.epoch - int(epoch) if epoch != -1 else side.epoch + 1,
            partition_max_bytes=row_bytes,
            log_start_offset=log.log_start_offset if is_follower else -1,
            last_fetched_epoch=log.epochs.latest if is_follower and reader.version >= 12 and where != "first" else -1,
        )
        reader.fetch(row, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=bytes_max, isolation_level=isolation)


@pytest.mark.parametrize("bytes_per_second", [None, 300], ids=["no quota", "a quota"])
@given(st.lists(STEPS, max_size=40))
@example([("all at the end", 0, None), ("timeouts", None, None), ("all at the end", 0, None), ("append", 1, 10)])
@settings(max_examples=examples(250), deadline=None)
def test_a_fetch_at_the_end_leaves_the_same_bytes_and_the_same_state_as_one_that_reads_first(
    bytes_per_second: int | None, steps: list[tuple[str, Any, Any]]
) -> None:
    async def law(_: SimLoop) -> None:
        quotas = [
            None if bytes_per_second is None else ReplicaQuota(lambda _: True, bytes_per_second) for _ in range(2)
        ]
        scripts = [
            Script(TailSide(has_tails=has_tails, quota=quota))
            for has_tails, quota in zip((True, False), quotas, strict=True)
        ]
        for step in steps:
            for script in scripts:
                script.carry_out(*step)
            ours, theirs = (script.side.state() for script in scripts)
            assert ours == theirs, step

    in_virtual_time(law)


TAILING = 50


def calls_per_answer(*, has_tails: bool, has_session: bool = True) -> float:
    """Python calls from an append to the answers of all consumers that wait for it, and to their next fetches."""
    calls: list[float] = []

    async def measured(_: SimLoop) -> None:
        side = TailSide(has_tails=has_tails)
        side.lead(ALL[:1])
        side.readers = [Reader(side, 16, has_session=has_session) for _ in range(TAILING)]
        script = Script(side)
        for _ in range(3):  # A session's first fetches are full ones.
            script.carry_out("all at the end", 0, None)
            script.carry_out("append", 1, 100)
        script.carry_out("all at the end", 0, None)
        served = sum(len(reader.answers) for reader in side.readers)
        batch = checked(a_batch(1))

        def one_record() -> None:
            side.led.append(batch, 0, all_replicas=False)
            side.led.notify_purgatory()

        calls.append(calls_of(one_record) / TAILING)
        assert sum(len(reader.answers) for reader in side.readers) == served + TAILING

    in_virtual_time(measured)
    return calls[0]


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of the package a piece of work calls."""
    count = 0

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call" and is_ours(frame.f_code)

    with profiled(on_event):
        work()
    return count


@pytest.mark.parametrize("has_session", [True, False], ids=["in sessions", "without sessions"])
def test_one_answer_for_all_who_wait_at_one_offset_costs_each_of_them_a_third_of_a_read(has_session: bool) -> None:
    shared = calls_per_answer(has_tails=True, has_session=has_session)
    read = calls_per_answer(has_tails=False, has_session=has_session)
    assert shared <= 0.4 * read, (shared, read)
