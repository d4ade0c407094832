"""When a prepared Fetch holds. That it leaves what the general way leaves is a law in `handlers/test_tail_fetch.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.prepared_requests import Declined, PreparedRequest
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from sordini.protocol.types import LeaderEpoch, Offset, TopicPartition
from sordini.replication.follower_truncation import FetchPosition
from sordini.replication.leader import Term
from tests.support.builders import a_batch
from tests.support.partitions import checked
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, a_peer, joined, read_answer, topic_id_of

FETCH = ApiKey.FETCH
ORDERS = TopicPartition("orders", 0)
VERSION = 17
FOLLOWER = ReplicaState(replica_id=OTHER, replica_epoch=7)


@pytest.fixture
async def broker() -> AsyncIterator[UnitBroker]:
    """It leads orders-0, with a follower."""
    async with a_broker() as one:
        await one.lead("orders")
        partition = one.parts.replicas.partition(*ORDERS)
        partition.become_leader(ME, Term(LeaderEpoch(1), (ME, OTHER), (ME, OTHER), 1), 0)
        yield one


def fetch(offset: int = 0, *, epoch: int = -1, session: int = 0, follows: bool = False, **fields: Any) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000, current_leader_epoch=1)
    topic = FetchTopic(topic="orders", topic_id=topic_id_of("orders"), partitions=[row])
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=10_000, topics=[topic], session_id=session, session_epoch=epoch
    )
    request.replica_state = FOLLOWER if follows else None
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def append(broker: UnitBroker, *, notify: bool = True) -> None:
    partition = broker.parts.replicas.partition(*ORDERS)
    partition.append(checked(a_batch(1)), 0, all_replicas=False)
    if notify:
        partition.notify_purgatory()


def prepared_in(broker: UnitBroker) -> list[PreparedRequest]:
    return list(broker.parts.dispatcher.prepared.by_prefix.values())


def waits(answer: object) -> bool:
    return isinstance(answer, DelayedResponse) and not answer.is_answered


def end(pending: object) -> None:
    """The connection of a fetch that waits is closed."""
    assert isinstance(pending, DelayedResponse)
    pending.abandon()


def a_session(broker: UnitBroker, *, follows: bool) -> int:
    """A session in epoch 2 whose second fetch was served the general way; its id."""
    opened = broker.serve(FETCH, VERSION, fetch(epoch=0, follows=follows))
    if isinstance(opened, DelayedResponse):
        broker.timers.fire()
        opened = opened.parts
    number: int = read_answer(FETCH, VERSION, opened).session_id
    end(broker.serve(FETCH, VERSION, fetch(epoch=1, session=number, follows=follows)))
    assert len(prepared_in(broker)) == 1
    return number


@pytest.mark.parametrize("version", range(19))
async def test_from_version_7_on_a_fetch_without_a_session_is_prepared(broker: UnitBroker, version: int) -> None:
    end(broker.serve(FETCH, version, fetch()))
    assert len(prepared_in(broker)) == (version >= 7)
    for one in prepared_in(broker):
        answer = one.serve(broker.peer, broker.frame(FETCH, version, fetch()), 77)
        assert waits(answer)
        end(answer)


@pytest.mark.parametrize("follows", [False, True], ids=["a consumer", "a follower"])
async def test_a_session_of_one_partition_is_prepared_and_goes_on_from_epoch_to_epoch(
    broker: UnitBroker, *, follows: bool
) -> None:
    number = a_session(broker, follows=follows)
    (one,) = prepared_in(broker)
    session = broker.parts.fetch_sessions.find(number)
    assert session is not None
    for epoch in (2, 3, 4):
        answer = one.serve(
            broker.peer, broker.frame(FETCH, VERSION, fetch(epoch=epoch, session=number, follows=follows)), 77
        )
        assert waits(answer)
        assert session.epoch == epoch + 1
        end(answer)


@pytest.mark.parametrize(
    "request_",
    [
        fetch(max_wait_ms=0),
        fetch(min_bytes=0),
        fetch(session=5),
        fetch(follows=True),
        fetch(forgotten_topics_data=[ForgottenTopic(topic="orders", topic_id=topic_id_of("orders"), partitions=[1])]),
        fetch(topics=[]),
    ],
    ids=["no wait", "no bytes", "the end of a session", "a follower without a session", "forgotten", "no topics"],
)
async def test_unusual_fetches_are_not_prepared(broker: UnitBroker, request_: FetchRequest) -> None:
    broker.serve(FETCH, VERSION, request_)
    assert prepared_in(broker) == []


async def test_fetches_of_two_partitions_and_sessions_of_two_are_not_prepared(broker: UnitBroker) -> None:
    await broker.lead("others")
    both = fetch(epoch=0)
    both.topics = [both.topics[0], FetchTopic(topic_id=topic_id_of("others"), partitions=[FetchPartition()])]
    opened = broker.serve(FETCH, VERSION, both)
    assert isinstance(opened, DelayedResponse)
    broker.timers.fire()
    assert opened.parts is not None
    number = read_answer(FETCH, VERSION, opened.parts).session_id
    end(broker.serve(FETCH, VERSION, fetch(epoch=1, session=number)))
    assert prepared_in(broker) == []


async def test_a_follower_is_served_on_the_listener_where_it_was_served_before_and_a_consumer_on_any(
    broker: UnitBroker,
) -> None:
    number = a_session(broker, follows=True)
    (one,) = prepared_in(broker)
    frame = broker.frame(FETCH, VERSION, fetch(epoch=2, session=number, follows=True))
    assert one.serve(a_peer("CLIENTS"), frame, 77) is Declined.UNUSUAL
    end(one.serve(broker.peer, frame, 77))
    broker.parts.dispatcher.prepared.forget_all()
    end(broker.serve(FETCH, VERSION, fetch()))
    (one,) = prepared_in(broker)
    end(one.serve(a_peer("CLIENTS"), broker.frame(FETCH, VERSION, fetch()), 77))


async def test_another_leader_epoch_makes_it_stale(broker: UnitBroker) -> None:
    end(broker.serve(FETCH, VERSION, fetch()))
    (one,) = prepared_in(broker)
    partition = broker.parts.replicas.partition(*ORDERS)
    partition.become_leader(ME, Term(LeaderEpoch(2), (ME, OTHER), (ME, OTHER), 2), 0)
    assert one.serve(broker.peer, broker.frame(FETCH, VERSION, fetch()), 77) is Declined.STALE


async def test_what_a_session_does_not_expect_is_left_to_the_general_way(broker: UnitBroker) -> None:
    number = a_session(broker, follows=False)
    (one,) = prepared_in(broker)

    def outcome(epoch: int) -> object:
        return one.serve(broker.peer, broker.frame(FETCH, VERSION, fetch(epoch=epoch, session=number)), 77)

    assert outcome(1) is Declined.UNUSUAL, "an epoch that was used"
    assert outcome(3) is Declined.UNUSUAL, "an epoch too far"
    sessions = broker.parts.fetch_sessions
    session = sessions.find(number)
    assert session is not None
    ((key, target),) = session.targets.items()
    other_key = (key[0], 9)
    session.targets[other_key] = target
    assert outcome(2) is Declined.UNUSUAL, "another partition was added"
    del session.targets[key]
    assert outcome(2) is Declined.UNUSUAL, "it has another partition now"
    del session.targets[other_key]
    session.targets[key] = target
    end(outcome(2))
    broker.serve(FETCH, VERSION, fetch(epoch=-1, session=number))
    assert outcome(3) is Declined.UNUSUAL, "the session is closed"


async def test_records_that_are_there_are_read_in_the_general_way(broker: UnitBroker) -> None:
    partition = broker.parts.replicas.partition(*ORDERS)
    partition.become_leader(ME, Term(LeaderEpoch(2), (ME,), (ME,), 2), 0)
    wanted = fetch()
    wanted.topics[0].partitions[0].current_leader_epoch = 2
    end(broker.serve(FETCH, VERSION, wanted))
    (one,) = prepared_in(broker)
    append(broker)
    assert one.serve(broker.peer, broker.frame(FETCH, VERSION, wanted), 77) is Declined.UNUSUAL


async def test_a_follower_behind_the_log_end_or_of_another_epoch_is_left_to_the_general_way(
    broker: UnitBroker,
) -> None:
    number = a_session(broker, follows=True)
    (one,) = prepared_in(broker)
    append(broker)
    behind = broker.frame(FETCH, VERSION, fetch(0, epoch=2, session=number, follows=True))
    assert one.serve(broker.peer, behind, 77) is Declined.UNUSUAL
    diverged = fetch(1, epoch=2, session=number, follows=True)
    diverged.topics[0].partitions[0].last_fetched_epoch = 0
    assert one.serve(broker.peer, broker.frame(FETCH, VERSION, diverged), 77) is Declined.UNUSUAL
    replica = broker.parts.replicas.partition(*ORDERS).leader.replicas[OTHER]  # type: ignore[union-attr]
    assert replica.end_offset == 0, "nothing was recorded"
    broker.clock.ms += 7
    diverged.topics[0].partitions[0].log_start_offset = 1
    diverged.topics[0].partitions[0].last_fetched_epoch = 1
    end(one.serve(broker.peer, broker.frame(FETCH, VERSION, diverged), 77))
    assert (replica.end_offset, replica.start_offset, replica.fetched_ms) == (1, 1, broker.clock.monotonic_ms())


async def test_any_other_byte_in_the_middle_or_at_the_end_is_left_to_the_general_way(broker: UnitBroker) -> None:
    number = a_session(broker, follows=False)
    (one,) = prepared_in(broker)
    frame = broker.frame(FETCH, VERSION, fetch(epoch=2, session=number))
    ((_, prefix),) = broker.parts.dispatcher.prepared.by_prefix
    first = 8 + len(prefix)
    fields = bytes(frame).index(bytes(8), first + 4 + 16)
    ends_at = fields + 8 + 4 + 8
    for at in [*range(first, fields), *range(ends_at, len(frame))]:
        changed = bytearray(frame)
        changed[at] ^= 1
        assert one.serve(broker.peer, memoryview(changed), 77) is Declined.UNUSUAL, at
    for length in (0, 8, first, fields, len(frame) - 1):
        assert one.serve(broker.peer, frame[:length], 77) is Declined.UNUSUAL, length
    assert one.serve(broker.peer, memoryview(bytearray(frame) + b"\0"), 77) is Declined.UNUSUAL
    end(one.serve(broker.peer, frame, 77))


async def test_fetches_with_the_same_bytes_on_two_connections_have_an_offset_and_a_correlation_id_each(
    broker: UnitBroker,
) -> None:
    partition = broker.parts.replicas.partition(*ORDERS)
    end(broker.serve(FETCH, VERSION, fetch()))
    (one,) = prepared_in(broker)
    first = one.serve(broker.peer, broker.frame(FETCH, VERSION, fetch(0)), 5)
    append(broker, notify=False)
    second = one.serve(a_peer(), broker.frame(FETCH, VERSION, fetch(1)), 6)
    assert isinstance(first, DelayedResponse)
    assert isinstance(second, DelayedResponse)
    append(broker)
    partition.update_follower_fetch_state(OTHER, FetchPosition(Offset(2), LeaderEpoch(1), -1), 0)
    answers = []
    for pending in (first, second):
        assert pending.parts is not None
        answers.append(bytearray(joined(pending.parts)))
    assert [int.from_bytes(answer[4:8], "big") for answer in answers] == [5, 6]
    offsets = []
    for answer in answers:
        answer[4:8] = (77).to_bytes(4, "big")
        ((row,),) = (topic.partitions for topic in read_answer(FETCH, VERSION, [answer]).responses)
        offsets.append(int.from_bytes(bytes(row.records[:8]), "big"))
    assert offsets == [0, 1]


async def test_a_prepared_fetch_is_counted_as_a_request(broker: UnitBroker) -> None:
    end(broker.serve(FETCH, VERSION, fetch()))
    end(broker.serve(FETCH, VERSION, fetch()))
    (counted,) = (one for one in broker.parts.dispatcher.versioned_apis if one.api.key == FETCH)
    assert (counted.requests, counted.errors) == (2, 0)


async def test_a_request_to_open_a_session_is_left_to_the_general_way(broker: UnitBroker) -> None:
    end(broker.serve(FETCH, VERSION, fetch()))
    (one,) = prepared_in(broker)
    assert one.serve(broker.peer, broker.frame(FETCH, VERSION, fetch(epoch=0)), 77) is Declined.UNUSUAL


@pytest.mark.parametrize("epoch", [0, 2])
async def test_a_fetch_of_another_leader_epoch_is_answered_with_its_error_every_time(
    broker: UnitBroker, epoch: int
) -> None:
    wrong = fetch()
    wrong.topics[0].partitions[0].current_leader_epoch = epoch
    for _ in range(2):
        ((row,),) = (topic.partitions for topic in broker.ask(FETCH, VERSION, wrong).responses)
        assert row.error_code in {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}
    assert prepared_in(broker) == []


async def test_a_follower_that_has_no_news_for_a_while_is_served_in_the_prepared_way_again(broker: UnitBroker) -> None:
    number = a_session(broker, follows=True)
    (one,) = prepared_in(broker)
    for epoch in (2, 3, 4):
        pending = one.serve(
            broker.peer, broker.frame(FETCH, VERSION, fetch(epoch=epoch, session=number, follows=True)), 77
        )
        assert waits(pending), epoch
        broker.timers.fire()
        assert isinstance(pending, DelayedResponse)
        assert pending.parts is not None
        assert read_answer(FETCH, VERSION, pending.parts).responses == []


async def test_the_limits_of_a_prepared_fetch_are_its_own_whatever_the_session_asked_before(
    broker: UnitBroker,
) -> None:
    number = a_session(broker, follows=True)
    (one,) = prepared_in(broker)
    less = fetch(epoch=2, session=number, follows=True)
    less.topics[0].partitions[0].partition_max_bytes = 1
    end(broker.serve(FETCH, VERSION, less))
    pending = one.serve(broker.peer, broker.frame(FETCH, VERSION, fetch(epoch=3, session=number, follows=True)), 77)
    session = broker.parts.fetch_sessions.find(number)
    assert session is not None
    (target,) = session.targets.values()
    assert target.requested.partition_max_bytes == 1000
    end(pending)


async def test_a_consumer_that_may_be_sent_to_another_replica_is_asked_every_time() -> None:
    async with a_broker(
        {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector", "broker.rack": "a"}
    ) as broker:
        await broker.lead("orders", epoch=1)
        end(broker.serve(FETCH, VERSION, fetch(rack_id="b")))
        assert prepared_in(broker) == []
        end(broker.serve(FETCH, VERSION, fetch()))
        assert len(prepared_in(broker)) == 1
