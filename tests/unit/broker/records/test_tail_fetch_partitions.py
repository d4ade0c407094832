"""Fetches of followers that wait at the ends of several partitions are answered as those that read before they wait."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.records import fetch_reading
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from sordini.protocol.records.batch import read_header
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import PartitionInfo, PartitionState
from sordini.replication.partition import Partition
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.support.builders import a_batch
from tests.support.fake_ports import StillClock
from tests.support.partitions import checked
from tests.support.parts import examples
from tests.support.replica_pair import LeaderSide, in_virtual_time, topic_id_of
from tests.support.unit_broker import Timers, a_peer, joined, read_answer

ALL = tuple(BrokerId(number) for number in (1, 2, 3))
ME = ALL[0]
NAMES = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0))
FETCH = APIS[ApiKey.FETCH]


class Follower:
    """A session over all partitions; each fetch names those whose offset has changed."""

    def __init__(self, side: Side, version: int, replica: BrokerId) -> None:
        self.side, self.version, self.replica = side, version, replica
        self.session, self.epoch = 0, 0
        self.offsets = dict.fromkeys(NAMES, 0)
        self.sent: dict[TopicPartition, tuple[int, ...]] = {}
        self.pending: DelayedResponse | None = None
        self.answers: list[bytes] = []

    def fetch(self, *, bytes_max: int, min_bytes: int, is_unaware: bool = False) -> None:
        """An unaware follower names nothing: it has not heard of an election."""
        if self.pending is not None:
            return
        topics = []
        for name, offset in self.offsets.items() if not is_unaware or not self.epoch else ():
            led = self.side.led(name)
            values = offset, led.leader_epoch, led.log.log_start_offset
            if self.epoch and self.sent.get(name) == values:
                continue
            self.sent[name] = values
            row = FetchPartition(
                partition=name.partition,
                fetch_offset=offset,
                current_leader_epoch=led.leader_epoch,
                last_fetched_epoch=led.log.epochs.latest if self.version >= 12 and offset else -1,
                log_start_offset=led.log.log_start_offset,
                partition_max_bytes=bytes_max,
            )
            topics.append(FetchTopic(topic=name.topic, topic_id=topic_id_of(name.topic), partitions=[row]))
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=min_bytes,
            max_bytes=2 * bytes_max,
            session_id=self.session,
            session_epoch=self.epoch,
            topics=topics,
        )
        if self.version >= 15:
            request.replica_state = ReplicaState(replica_id=self.replica, replica_epoch=7)
        else:
            request.replica_id = self.replica
        header = request_header(FETCH, self.version, 77, "follower")
        frame = memoryview(bytearray(header + codecs.encode(request, self.version)))
        answer = self.side.dispatcher.serve(a_peer(), frame)
        if isinstance(answer, DelayedResponse) and not answer.is_answered:
            self.pending = answer
            answer.attach(self._deliver)
        else:
            self._received(answer.parts if isinstance(answer, DelayedResponse) else answer)

    def _deliver(self) -> None:
        assert self.pending is not None
        parts, self.pending = self.pending.parts, None
        self._received(parts)

    def _received(self, parts: Any) -> None:
        data = joined(parts)
        self.answers.append(data)
        answer: FetchResponse = read_answer(ApiKey.FETCH, self.version, [data])
        self.session = answer.session_id
        self.epoch = 0 if answer.error_code or not answer.session_id else self.epoch + 1
        for topic in answer.responses:
            for row in topic.partitions:
                records = bytes(row.records or b"")
                name = next(
                    one
                    for one in NAMES
                    if one.partition == row.partition_index
                    and (one.topic == topic.topic or topic_id_of(one.topic) == topic.topic_id)
                )
                at = 0
                while len(records) - at > 61:
                    header = read_header(records, at)
                    at += header.size
                    if at <= len(records):
                        self.offsets[name] = header.next_offset

    def disconnect(self) -> None:
        if self.pending is not None:
            self.pending.abandon()
            self.pending, self.epoch = None, 0


class Side(LeaderSide):
    """The leader of three partitions, with two followers, on a still clock."""

    def __init__(self, *, has_tails: bool, quota: ReplicaQuota | None) -> None:
        self.clock, self.timers, self.quota = StillClock(), Timers(), quota
        super().__init__(ME, self.clock, call_later=self.timers.call_later, has_tails=has_tails, quota=quota)
        self.epochs = dict.fromkeys(NAMES, -1)
        for name in NAMES:
            self.topics[topic_id_of(name.topic)] = name.topic
            self.elect(name, ALL)
        self.followers = [Follower(self, 17, ALL[1]), Follower(self, 12, ALL[2])]

    def led(self, name: TopicPartition) -> Partition:
        return self.replicas.partition(*name)

    def elect(self, name: TopicPartition, isr: tuple[BrokerId, ...]) -> None:
        self.epochs[name] += 1
        state = PartitionState(ME, LeaderEpoch(self.epochs[name]), isr, 1)
        info = PartitionInfo(name, topic_id_of(name.topic), ALL, state, self.epochs[name], is_new=True)
        self.replicas.become_leader_or_follower(info)

    def carry_out(self, step: str, number: int, how: int) -> None:
        name = NAMES[number % len(NAMES)]
        follower = self.followers[number % 2]
        log = self.led(name).log
        match step:
            case "append" | "append quietly":
                self.led(name).append(checked(a_batch(1, value=bytes(how))), 0, all_replicas=False)
                if step == "append":
                    self.led(name).notify_purgatory()
            case "fetch":
                follower.fetch(bytes_max=how, min_bytes=1)
            case "both fetch":
                for one in self.followers:
                    one.fetch(bytes_max=how, min_bytes=1 + number % 2 * 100)
            case "unaware":
                follower.fetch(bytes_max=100_000, min_bytes=1, is_unaware=True)
            case "burst":
                for other in (name, name, NAMES[(number + 1) % 3]):
                    self.led(other).append(checked(a_batch(1, value=bytes(how))), 0, all_replicas=False)
                self.led(name).notify_purgatory()
            case "go back":
                follower.offsets[name] = max(follower.offsets[name] - 1, 0)
            case "time":
                self.clock.ms += how
            case "timeouts":
                self.timers.fire()
            case "elect":
                self.elect(name, (ALL, ALL[:2])[how % 2])
            case "delete records":
                log.advance_log_start(log.high_watermark)
                for one in self.followers:
                    one.offsets[name] = max(one.offsets[name], log.log_start_offset)
            case "disconnect":
                follower.disconnect()

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "answers": [one.answers for one in self.followers],
            "pending": [one.pending is not None for one in self.followers],
            "sessions": [
                (
                    session.epoch,
                    session.last_used_ms,
                    session.full_scan_ms,
                    [
                        (key, one.sent_high_watermark, one.sent_log_start_offset, one.quiet is not None)
                        for key, one in session.targets.items()
                    ],
                )
                for session in self.sessions._sessions.values()
            ],
            "timers": len(self.timers.waiting),
            "quota": self.quota and (self.quota._meter._bytes, list(self.quota._meter._windows)),
            "lines": self.log.lines,
        }
        for name in NAMES:
            led = self.led(name)
            assert led.leader is not None
            found[str(name)] = (
                led.leader.high_watermark,
                len(led.log_end_waiters.purgatory),
                [segment.handle._pins for segment in led.log.segments.all()],
                [[getattr(one, field) for field in type(one).__slots__] for one in led.leader.replicas.values()],
            )
        return found


STEPS = st.one_of(
    st.tuples(st.just("both fetch"), st.sampled_from([0, 0, 0, 1]), st.sampled_from([100_000, 100_000, 170, 100, 85])),
    st.tuples(st.just("both fetch"), st.just(0), st.just(100_000)),
    st.tuples(st.just("burst"), st.integers(0, 2), st.just(10)),
    st.tuples(st.just("unaware"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("append"), st.integers(0, 2), st.sampled_from([10, 10, 100, 9000])),
    st.tuples(st.just("append"), st.integers(0, 2), st.just(10)),
    st.tuples(st.just("append quietly"), st.integers(0, 2), st.just(10)),
    st.tuples(st.just("fetch"), st.integers(0, 1), st.sampled_from([100_000, 150, 80])),
    st.tuples(st.just("go back"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("time"), st.just(0), st.sampled_from([1, 100, 499, 500, 40_000])),
    st.tuples(st.just("timeouts"), st.just(0), st.just(0)),
    st.tuples(st.just("elect"), st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.just("delete records"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("disconnect"), st.integers(0, 1), st.just(0)),
)


LAGGING = [("elect", number, 1) for number in range(3)]
APPENDS = [("append quietly", number, 10) for number in (0, 0, 1, 1, 2)]


@pytest.mark.parametrize("bytes_per_second", [None, 300], ids=["no quota", "a quota"])
@given(st.lists(STEPS, max_size=50))
@example([*2 * [("both fetch", 0, 100_000), ("timeouts", 0, 0)], ("elect", 0, 0), ("unaware", 0, 0)])
@example([*LAGGING, *3 * [("both fetch", 0, 100_000), ("append", 0, 9000), ("time", 0, 1)]])
@settings(max_examples=examples(250), deadline=None)
@example([("both fetch", 0, 85), ("timeouts", 0, 0), ("both fetch", 0, 85), APPENDS[0], ("append", 0, 10)])
@example([*2 * [("both fetch", 0, 160), ("timeouts", 0, 0)], ("both fetch", 0, 160), *APPENDS, ("append", 2, 10)])
def test_a_follower_of_several_partitions_is_answered_with_the_same_bytes_and_leaves_the_same_state(
    bytes_per_second: int | None, steps: list[tuple[str, int, int]]
) -> None:
    async def law(_: SimLoop) -> None:
        sides = []
        for has_tails in (True, False):
            quota = None if bytes_per_second is None else ReplicaQuota(lambda _: True, bytes_per_second)
            sides.append(Side(has_tails=has_tails, quota=quota))
        for step in steps:
            for side in sides:
                side.carry_out(*step)
            assert sides[0].state() == sides[1].state(), step

    in_virtual_time(law)


def test_a_record_is_read_from_the_cache_of_small_appends_and_its_watermark_follows_with_the_next_one() -> None:
    """What the law would not notice: that nothing is read from the log twice, nor from its file."""

    async def scene(_: SimLoop) -> None:
        side = Side(has_tails=True, quota=None)
        reads: list[str] = []
        original = fetch_reading.Reading.read
        try:
            fetch_reading.Reading.read = lambda self: (reads.append("read"), original(self))[1]  # type: ignore[method-assign,func-returns-value]
            for _ in range(2):
                side.carry_out("both fetch", 0, 100_000)
                side.carry_out("timeouts", 0, 0)
            reads.clear()
            for number in range(9):
                side.carry_out("both fetch", 0, 100_000)
                assert all(one.pending is not None for one in side.followers)
                side.carry_out("append", number, 10)
            assert reads == []
        finally:
            fetch_reading.Reading.read = original  # type: ignore[method-assign]
        side.carry_out("both fetch", 0, 100_000)
        assert [side.led(name).leader.high_watermark for name in NAMES] == [3, 3, 3]  # type: ignore[union-attr]

    in_virtual_time(scene)
