"""Making and deleting topics: what is written to the store, and what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store.configs import read_config
from sordini.replication.ports import NoNode
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, known_broker, led, topic_id_of

PATIENT = 3_600_000
HASTY = 1
"""Milliseconds: an answer that nobody waits for in vain."""


def wanted(name: str = "orders", partitions: int = 1, **configs: str | None) -> CreatableTopic:
    entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=entries)


class Office:
    """A TopicAdmin of broker 1; `appear` and `vanish` are what the controller does."""

    def __init__(self, broker: UnitBroker, **entries: str) -> None:
        config = build_config({key.replace("_", "."): text for key, text in entries.items()})[0]
        self.session = broker.session
        self.broker = broker
        self.metadata = MetadataCache("a-cluster")
        self.metadata.set_brokers(ME, [known_broker()])
        self.ids = [topic_id_of(f"id-{number}") for number in range(9)]
        self.admin = TopicAdmin(
            ME,
            broker.session,
            self.metadata,
            TopicConfigs(DynamicConfig(config, frozenset(entries)), lambda topic: read_config(broker.session, topic)),
            config,
            lambda: self.ids.pop(0),
            broker.spawn,
        )

    def appear(self, name: str, partitions: int = 1, leader: BrokerId = ME) -> None:
        for index in range(partitions):
            self.metadata.set_partition(name, topic_id_of(name), index, led(leader))
        self.metadata.changed()

    def vanish(self, name: str) -> None:
        for index in list(self.metadata.topics[name].partitions):
            self.metadata.drop_partition(name, index)
        self.metadata.changed()

    async def topics(self) -> list[str]:
        return await self.session.children("/brokers/topics")

    async def written(self, count: int = 1) -> None:
        """Wait until the store has so many topics."""
        while len(await self.topics()) < count:  # noqa: ASYNC110 - the store tells nobody else.
            await asyncio.sleep(0)


async def code_of(work) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        await work
    return refusal.value.code


def refused(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        action()
    return refusal.value.code


async def test_a_topic_is_answered_once_all_its_partitions_have_leaders() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        making = asyncio.create_task(office.admin.create(office.admin.plan(wanted(partitions=2)), timeout_ms=PATIENT))
        await office.written()
        office.appear("orders", 1)
        await asyncio.sleep(0)
        office.appear("orders", 2, leader=BrokerId(-1))
        await asyncio.sleep(0)
        assert not making.done()
        office.appear("orders", 2)
        assert await making == topic_id_of("id-0")
        assert office.metadata._listeners == []


async def test_configuration_and_assignment_are_in_the_store_together() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        planned = office.admin.plan(wanted(segment_bytes="5000"))
        office.appear("orders")  # The controller is quicker than the answer.
        await office.admin.create(planned, timeout_ms=PATIENT)
        assert await office.topics() == ["orders"]
        assert await read_config(office.session, "topics/orders") == {"segment.bytes": "5000"}


async def test_a_topic_creation_that_times_out_continues() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        assert (
            await code_of(office.admin.create(office.admin.plan(wanted()), timeout_ms=HASTY))
            == ErrorCode.REQUEST_TIMED_OUT
        )
        assert await office.topics() == ["orders"]
        assert office.metadata._listeners == [], "nobody listens any more"


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_without_time_to_wait_a_topic_is_created_and_answered_with_a_timeout(timeout_ms: int) -> None:
    async with a_broker() as broker:
        office = Office(broker)
        planned = office.admin.plan(wanted())
        office.appear("orders")
        assert await code_of(office.admin.create(planned, timeout_ms=timeout_ms)) == ErrorCode.REQUEST_TIMED_OUT
        assert await office.topics() == ["orders"]


async def test_of_two_creations_of_one_topic_one_is_answered_that_it_exists() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        plans = [office.admin.plan(wanted()) for _ in range(2)]
        office.appear("orders")
        outcomes = await asyncio.gather(
            *(office.admin.create(planned, timeout_ms=PATIENT) for planned in plans), return_exceptions=True
        )
        (error,) = [outcome for outcome in outcomes if isinstance(outcome, BrokerError)]
        assert error.code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert refused(lambda: office.admin.plan(wanted())) == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("value", [{"segment_bytes": "tiny"}, {"no_such_key": "1"}, {"segment_bytes": None}])
async def test_a_wrong_configuration_is_refused_before_anything_is_written(value: dict[str, str | None]) -> None:
    async with a_broker() as broker:
        office = Office(broker)
        assert refused(lambda: office.admin.plan(wanted(**value))) == ErrorCode.INVALID_CONFIG


async def test_a_deleted_topic_is_answered_once_it_is_gone() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        office.appear("orders", 2)
        await office.session.create("/brokers/topics/orders", b"{}")
        deleting = asyncio.create_task(office.admin.delete("orders", timeout_ms=PATIENT))
        while await office.session.exists("/admin/delete_topics/orders") is None:  # noqa: ASYNC110 - as above.
            await asyncio.sleep(0)
        office.metadata.drop_partition("orders", 0)
        office.metadata.changed()
        await asyncio.sleep(0)
        assert not deleting.done()
        office.vanish("orders")
        await deleting


async def test_a_deletion_that_times_out_continues() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        office.appear("orders")
        await office.session.create("/brokers/topics/orders", b"{}")
        assert await code_of(office.admin.delete("orders", timeout_ms=HASTY)) == ErrorCode.REQUEST_TIMED_OUT
        assert await office.session.exists("/admin/delete_topics/orders") is not None


async def test_deletion_can_be_disabled() -> None:
    async with a_broker() as broker:
        office = Office(broker, delete_topic_enable="false")
        office.appear("orders")
        await office.session.create("/brokers/topics/orders", b"{}")
        assert await code_of(office.admin.delete("orders", timeout_ms=HASTY)) == ErrorCode.TOPIC_DELETION_DISABLED
        with pytest.raises(NoNode):
            await office.session.get("/admin/delete_topics/orders")


async def test_an_unknown_topic_is_auto_created_once_however_often_it_is_requested() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        codes = {office.admin.auto_create("orders") for _ in range(100)}
        assert codes == {ErrorCode.LEADER_NOT_AVAILABLE}
        assert len(broker.tasks) == 1
        await office.written()
        office.appear("orders")
        await broker.settled()
        assert await office.topics() == ["orders"]
        office.vanish("orders")
        office.admin.auto_create("orders")
        assert len(broker.tasks) == 1, "and again after it was deleted"
        for task in broker.tasks:
            task.cancel()
        broker.tasks.clear()


async def test_a_failed_auto_creation_can_be_requested_again() -> None:
    async with a_broker(entries={}) as broker:
        office = Office(broker, zookeeper_session_timeout_ms="1")
        for _ in range(2):
            assert office.admin.auto_create("orders") == ErrorCode.LEADER_NOT_AVAILABLE
            await broker.settled()  # Once it takes too long, once it is there already.
        assert await office.topics() == ["orders"]


@pytest.mark.parametrize("name", ["", ".", "..", "../../x", "a/b", "a\nb", "a" * 250, "ü"])
async def test_an_invalid_name_is_not_auto_created(name: str) -> None:
    async with a_broker() as broker:
        office = Office(broker)
        assert office.admin.auto_create(name) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert not broker.tasks


async def test_auto_creation_can_be_disabled() -> None:
    async with a_broker() as broker:
        office = Office(broker, auto_create_topics_enable="false")
        assert office.admin.auto_create("orders") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert office.admin.auto_create("../x") == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert not broker.tasks


async def test_concurrent_auto_creations_are_bounded() -> None:
    async with a_broker() as broker:
        office = Office(broker, sordini_create_partitions_max="9", num_partitions="3")
        codes = {office.admin.auto_create(f"topic-{number}") for number in range(50)}
        assert codes == {ErrorCode.LEADER_NOT_AVAILABLE}, "the others are told to ask again"
        assert len(broker.tasks) == 3
        await office.written(3)
        for number in range(3):
            office.appear(f"topic-{number}", 3)
        await broker.settled()
        office.admin.auto_create("topic-40")
        assert len(broker.tasks) == 1
        await office.written(4)
        office.appear("topic-40", 3)
        await broker.settled()


@pytest.mark.parametrize(
    ("topics", "is_refused"),
    [
        ([wanted(partitions=10)], False),
        ([wanted(partitions=11)], True),
        ([wanted("a", 5), wanted("b", 6)], True),
        ([wanted(partitions=1_000_000_000)], True),
        ([wanted(partitions=-1), wanted("b", -1)], False),
        ([wanted(partitions=-1), wanted("b", -1), wanted("c", -1)], True),
        ([wanted(f"t{number}", -7) for number in range(10)], False),
        ([wanted(f"t{number}", 0) for number in range(11)], True),
    ],
)
async def test_one_request_creates_a_bounded_number_of_partitions(
    topics: list[CreatableTopic], is_refused: bool
) -> None:
    async with a_broker() as broker:
        office = Office(broker, sordini_create_partitions_max="10", num_partitions="5")
        if is_refused:
            assert refused(lambda: office.admin.check_size(topics)) == ErrorCode.POLICY_VIOLATION
        else:
            office.admin.check_size(topics)


async def test_only_the_controller_changes_topics() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        office.admin.check_controller()
        office.metadata.set_brokers(OTHER, [known_broker()])
        assert refused(office.admin.check_controller) == ErrorCode.NOT_CONTROLLER


def one_broker_tells_its_rack(office: Office) -> None:
    others = known_broker(OTHER)._replace(rack="a")
    office.metadata.set_brokers(ME, [known_broker(), others])


async def test_replicas_are_spread_over_the_racks_of_the_brokers() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        stands = {1: "a", 2: "a", 3: "b"}
        office.metadata.set_brokers(ME, [known_broker(BrokerId(one))._replace(rack=stands[one]) for one in stands])
        planned = office.admin.plan(CreatableTopic(name="orders", num_partitions=9, replication_factor=2))
        assert all({stands[one] for one in held} == {"a", "b"} for held in planned.replicas.values())


async def test_auto_creation_works_while_some_brokers_have_no_rack() -> None:
    async with a_broker() as broker:
        office = Office(broker)
        one_broker_tells_its_rack(office)
        assert refused(lambda: office.admin.plan(wanted())) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert office.admin.plan(wanted(), needs_racks=False).replicas
        assert office.admin.auto_create("orders") == ErrorCode.LEADER_NOT_AVAILABLE
        await office.written()
