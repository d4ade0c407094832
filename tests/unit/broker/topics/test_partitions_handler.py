"""CreatePartitions, ElectLeaders and reassignments, with the real controller behind them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sordini.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sordini.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.types import TopicPartition
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import ElectionsRequested
from sordini.replication.metadata_store import paths
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.controlled_broker import GovernedBroker, a_governed_broker, governed, write_partition
from tests.support.unit_broker import OTHER, UnitBroker, a_broker, answer_of, known_broker, topic_id_of

CREATE, ELECT = ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS
REASSIGN, LIST = ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS
PATIENT = 3_600_000
PREFERRED, UNCLEAN = 0, 1


def grow(*topics: tuple[str, int] | tuple[str, int, list[list[int]]], **fields: Any) -> CreatePartitionsRequest:
    rows = []
    for name, count, *held in topics:
        given = [CreatePartitionsAssignment(broker_ids=one) for one in held[0]] if held else None
        rows.append(CreatePartitionsTopic(name=name, count=count, assignments=given))
    return CreatePartitionsRequest(topics=rows, **{"timeout_ms": PATIENT, **fields})


async def grown(whole: GovernedBroker, request: CreatePartitionsRequest, version: int = 3) -> list[tuple[str, int]]:
    return [(row.name, row.error_code) for row in (await whole.ask(CREATE, version, request)).results]


def produced(broker: UnitBroker, batch: bytes, index: int = 0) -> tuple[int, int]:
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=index, records=batch)])
    answer = broker.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]))
    (row,) = answer.responses[0].partition_responses
    return row.error_code, row.base_offset


def a_waiting_fetch(offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1_000_000, topics=[FetchTopic(topic="orders", partitions=[partition])]
    )


# More partitions.


@pytest.mark.parametrize("version", range(4))
async def test_new_partitions_are_answered_once_they_can_be_written_to(version: int) -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        assert await grown(whole, grow(("orders", 3)), version) == [("orders", 0)]
        known = whole.broker.parts.metadata.topics["orders"].partitions
        assert {index: partition.leader for index, partition in known.items()} == {0: 1, 1: 1, 2: 1}
        assert produced(whole.broker, a_batch(), 2) == (0, 0)
        assignment = await whole.assignment("orders")
        assert (assignment.replicas, assignment.topic_id) == ({0: (1,), 1: (1,), 2: (1,)}, topic_id_of("orders"))
        assert assignment.version == 1, "written once, on the version that was read"


async def test_producers_and_consumers_of_the_existing_partitions_continue() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        broker = whole.broker
        assert produced(broker, an_idempotent_batch(sequence=0)) == (0, 0)
        waiting = broker.serve(ApiKey.FETCH, 11, a_waiting_fetch(3))
        assert isinstance(waiting, DelayedResponse)
        await grown(whole, grow(("orders", 2)))
        assert not waiting.is_answered, "nothing happened to what it waits for"
        assert produced(broker, an_idempotent_batch(sequence=3)) == (0, 3)
        (row,) = answer_of(waiting, ApiKey.FETCH, 11).responses[0].partitions
        assert (row.error_code, row.high_watermark) == (0, 6)
        assert (await whole.state("orders")).leader_epoch == 0


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("nothing", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("../x", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("orders", 1), ErrorCode.INVALID_PARTITIONS),
        (("orders", 2), ErrorCode.INVALID_PARTITIONS),
        (("orders", -1), ErrorCode.INVALID_PARTITIONS),
        (("orders", 2, [[1]]), ErrorCode.INVALID_PARTITIONS),
        (("orders", 4, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("orders", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("orders", 3, [[2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("orders", 3, [[-1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("orders", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("orders", 3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("orders", 10_003), ErrorCode.POLICY_VIOLATION),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_invalid_growth_has_its_error_code_whether_only_validated_or_not(
    wanted: tuple[Any, ...], code: ErrorCode, validate_only: bool
) -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders", (1,), (1,))
        assert await grown(whole, grow(wanted, validate_only=validate_only)) == [(wanted[0], code)]
        assert len((await whole.assignment("orders")).replicas) == 2


async def test_a_request_that_only_validates_adds_nothing() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        assert await grown(whole, grow(("orders", 9), validate_only=True, timeout_ms=0)) == [("orders", 0)]
        assert (await whole.assignment("orders")).version == 0


async def test_a_topic_named_twice_is_refused_once_and_the_others_grow() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        await whole.make("bills")
        outcome = await grown(whole, grow(("orders", 2), ("bills", 2), ("orders", 3)))
        assert outcome == [("orders", ErrorCode.INVALID_REQUEST), ("bills", 0)]
        assert len((await whole.assignment("orders")).replicas) == 1
        assert len((await whole.assignment("bills")).replicas) == 2


async def test_new_partitions_have_the_requested_replicas() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        assert await grown(whole, grow(("orders", 3, [[1], [1]]))) == [("orders", 0)]
        assert (await whole.assignment("orders")).replicas[2] == (1,)


async def test_without_time_to_wait_the_answer_is_a_timeout_and_the_partitions_are_created_all_the_same() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        answer = await whole.ask(CREATE, 3, grow(("orders", 2), timeout_ms=0))
        (row,) = answer.results
        assert (row.error_code, row.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
        await whole.settled()
        assert produced(whole.broker, a_batch(), 1) == (0, 0)


async def test_a_topic_that_is_being_deleted_does_not_grow() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        await whole.controller.stop()
        await whole.broker.session.create(paths.delete_topic("orders"))
        outcome = await grown(whole, grow(("orders", 2)))
        assert outcome == [("orders", ErrorCode.INVALID_TOPIC_EXCEPTION)]


async def test_a_topic_being_reassigned_does_not_grow() -> None:
    async with a_broker() as broker:
        await write_partition(broker, "orders", (1, 2), 1, (1,), adding=(2,))
        async with governed(broker) as whole:
            outcome = await grown(whole, grow(("orders", 2)))
            assert outcome == [("orders", ErrorCode.REASSIGNMENT_IN_PROGRESS)]


async def test_only_the_controller_adds_partitions() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        whole.broker.parts.metadata.set_brokers(OTHER, [known_broker()])
        assert await grown(whole, grow(("orders", 2))) == [("orders", ErrorCode.NOT_CONTROLLER)]


async def test_the_limit_of_new_partitions_is_that_of_all_topics_of_a_request() -> None:
    async with a_governed_broker({"sordini.create.partitions.max": "5"}) as whole:
        await whole.make("orders", (1,), (1,))
        await whole.make("bills")
        refused = await grown(whole, grow(("orders", 5), ("bills", 4)))
        assert {code for _, code in refused} == {ErrorCode.POLICY_VIOLATION}
        assert await grown(whole, grow(("orders", 5), ("bills", 3))) == [("orders", 0), ("bills", 0)]


# Elections.


def elections(
    *wanted: tuple[str, list[int]], kind: int = PREFERRED, everything: bool = False, timeout_ms: int = PATIENT
) -> ElectLeadersRequest:
    rows = None if everything else [TopicPartitions(topic=name, partitions=some) for name, some in wanted]
    return ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout_ms=timeout_ms)


async def elected(
    whole: GovernedBroker, request: ElectLeadersRequest, version: int = 2
) -> list[tuple[str, list[tuple[int, int]]]]:
    answer = await whole.ask(ELECT, version, request)
    assert answer.error_code == 0
    return [
        (row.topic, [(one.partition_id, one.error_code) for one in row.partition_result])
        for row in answer.replica_election_results
    ]


@pytest.mark.parametrize("version", range(3))
async def test_a_preferred_leader_is_not_elected_again(version: int) -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders", (1,), (1,))
        outcome = await elected(whole, elections(("orders", [0, 7]), ("nothing", [0]), ("orders", [1, 0])), version)
        needless = ErrorCode.ELECTION_NOT_NEEDED
        assert outcome == [
            ("orders", [(0, needless), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, needless)]),
            ("nothing", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ]
        assert (await whole.state("orders")).leader_epoch == 0


async def test_an_election_of_all_partitions_reports_only_those_that_needed_one() -> None:
    async with a_broker() as broker:
        await write_partition(broker, "stuck", (2, 1), None, (2,))
        async with governed(broker) as whole:
            await whole.make("orders")
            everything = elections(everything=True)
            assert await elected(whole, everything) == [("stuck", [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)])]
            assert await elected(whole, elections(everything=True, kind=UNCLEAN)) == [("stuck", [(0, 0)])]
            assert await elected(whole, elections(everything=True, kind=UNCLEAN)) == []


async def test_an_unclean_election_elects_the_live_replica_of_a_partition_without_a_leader() -> None:
    async with a_broker() as broker:
        await write_partition(broker, "orders", (2, 1), None, (2,))
        async with governed(broker) as whole:
            assert produced(broker, a_batch())[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
            outcome = await elected(whole, elections(("orders", [0]), kind=UNCLEAN))
            assert outcome == [("orders", [(0, 0)])]
            state = await whole.state("orders")
            assert (state.leader, state.isr, state.leader_epoch) == (1, (1,), 6)
            assert produced(broker, a_batch()) == (0, 0), "it leads by the time that is answered"


async def test_no_leader_is_elected_without_a_live_replica() -> None:
    async with a_broker() as broker:
        await write_partition(broker, "orders", (2, 3), None, (2,))
        async with governed(broker) as whole:
            for kind, code in ((PREFERRED, 80), (UNCLEAN, 83)):
                outcome = await elected(whole, elections(("orders", [0]), kind=kind))
                assert outcome == [("orders", [(0, code)])]


async def test_an_election_is_validated_after_the_writes_in_flight() -> None:
    async with a_broker() as broker:
        await write_partition(broker, "orders", (2, 1), None, (2,))
        async with governed(broker) as whole:
            earlier = ElectionsRequested(ElectionType.UNCLEAN, (TopicPartition("orders", 0),))
            under_way = asyncio.create_task(whole.controller.submit(earlier))
            await asyncio.sleep(0)  # It is in the queue, and nothing of it is written.
            outcome = await elected(whole, elections(("orders", [0]), kind=UNCLEAN))
            assert outcome == [("orders", [(0, ErrorCode.ELECTION_NOT_NEEDED)])]
            assert await under_way is not None


async def test_an_election_that_takes_too_long_is_answered_with_a_timeout() -> None:
    async with a_broker() as broker:
        await write_partition(broker, "orders", (2, 1), None, (2,))
        async with governed(broker) as whole:
            outcome = await elected(whole, elections(("orders", [0]), kind=UNCLEAN, timeout_ms=0))
            assert outcome == [("orders", [(0, ErrorCode.REQUEST_TIMED_OUT)])]
            await whole.settled()
            assert (await whole.state("orders")).leader == 1


async def test_an_unknown_election_type_is_rejected_for_each_partition() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        answer = await whole.ask(ELECT, 2, elections(("orders", [0]), kind=2))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST


async def test_only_the_active_controller_elects_reassigns_and_lists() -> None:
    async with a_broker() as broker:
        answer = await broker.ask_later(ELECT, 2, elections(("orders", [0])))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NOT_CONTROLLER
        answer = await broker.ask_later(REASSIGN, 1, reassignments(("orders", 0, [1])))
        assert answer.error_code == answer.responses[0].partitions[0].error_code == ErrorCode.NOT_CONTROLLER
        answer = broker.ask(LIST, 0, ListPartitionReassignmentsRequest())
        assert answer.error_code == ErrorCode.NOT_CONTROLLER


# Reassignments.


def reassignments(*wanted: tuple[str, int, list[int] | None], **fields: Any) -> AlterPartitionReassignmentsRequest:
    rows = [
        ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        for name, index, replicas in wanted
    ]
    return AlterPartitionReassignmentsRequest(timeout_ms=PATIENT, topics=rows, **fields)


async def reassigned(
    whole: GovernedBroker, request: AlterPartitionReassignmentsRequest, version: int = 1
) -> list[tuple[str, int, int]]:
    answer = await whole.ask(REASSIGN, version, request)
    assert answer.error_code == 0
    assert answer.allow_replication_factor_change == request.allow_replication_factor_change
    return [(row.name, one.partition_index, one.error_code) for row in answer.responses for one in row.partitions]


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("name", "index", "replicas", "code"),
    [
        ("orders", 0, [1], 0),
        ("orders", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 0, [1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 0, [-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("orders", 9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 9, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("nothing", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nothing", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("nothing", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("nothing", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_the_answers_of_a_single_broker_to_reassignments(
    name: str, index: int, replicas: list[int] | None, code: int, version: int
) -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        assert await reassigned(whole, reassignments((name, index, replicas)), version) == [(name, index, code)]
        assert (await whole.assignment("orders")).version == 0, "and nothing is written"


async def test_replicas_of_lost_brokers_can_be_dropped() -> None:
    async with a_broker() as broker:
        await write_partition(broker, "orders", (2, 1), 1, (1,))
        async with governed(broker) as whole:
            factor = reassignments(("orders", 0, [1]), allow_replication_factor_change=False)
            assert await reassigned(whole, factor) == [("orders", 0, ErrorCode.INVALID_REPLICATION_FACTOR)]
            assert await reassigned(whole, reassignments(("orders", 0, [2]))) == [("orders", 0, 0)]
            await whole.settled()
            (under_way,) = broker.ask(LIST, 0, ListPartitionReassignmentsRequest()).topics
            (row,) = under_way.partitions
            assert (row.replicas, row.removing_replicas) == ([2, 1], [1]), "it waits for 2, which is down"
            assert await reassigned(whole, reassignments(("orders", 0, [1]))) == [("orders", 0, 0)]
            await whole.settled()
            assert (await whole.assignment("orders")).replicas == {0: (1,)}
            assert broker.parts.metadata.topics["orders"].partitions[0].replicas == (1,)
            assert produced(broker, a_batch()) == (0, 0)


async def test_a_reassignment_of_a_former_controller_is_listed_and_can_be_cancelled() -> None:
    async with a_broker() as broker:
        await write_partition(broker, "orders", (1, 2), 1, (1,), adding=(2,), removing=(1,))
        async with governed(broker) as whole:
            await whole.make("bills")
            everything = broker.ask(LIST, 0, ListPartitionReassignmentsRequest())
            (topic,) = everything.topics
            (row,) = topic.partitions
            assert (topic.name, row.partition_index, row.replicas) == ("orders", 0, [1, 2])
            assert (row.adding_replicas, row.removing_replicas) == ([2], [1])
            for name, index, count in (("orders", 0, 1), ("orders", 1, 0), ("bills", 0, 0)):
                some = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[index])]
                assert len(broker.ask(LIST, 0, ListPartitionReassignmentsRequest(topics=some)).topics) == count
            assert broker.ask(LIST, 0, ListPartitionReassignmentsRequest(topics=[])).topics == []
            assert await reassigned(whole, reassignments(("orders", 0, None))) == [("orders", 0, 0)]
            assert broker.ask(LIST, 0, ListPartitionReassignmentsRequest()).topics == []
            assignment = await whole.assignment("orders")
            assert (assignment.replicas, assignment.adding, assignment.removing) == ({0: (1,)}, {}, {})


async def test_two_administrators_at_once_are_served_one_after_the_other() -> None:
    async with a_governed_broker() as whole:
        await whole.make("orders")
        first, second = await asyncio.gather(grown(whole, grow(("orders", 2))), grown(whole, grow(("orders", 3))))
        assert first == second == [("orders", 0)]
        assert len((await whole.assignment("orders")).replicas) == 3
