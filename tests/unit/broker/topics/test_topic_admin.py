"""Creating and deleting topics: the writes to the store, and the responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.topics.auto_creation import AutoCreation
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.topic_admin import TopicAdmin
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store.configs import read_config
from sordini.replication.ports import NoNode
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, known_broker, led, topic_id_of

LONG_MS = 3_600_000
SHORT_MS = 1
"""Milliseconds: long enough for every response."""


def creatable(name: str = "orders", partitions: int = 1, **configs: str | None) -> CreatableTopic:
    entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=entries)


class AdminScene:
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
        )
        self.internal_created = 0
        internal = {"__consumer_offsets": self._create_internal}
        self.auto_creation = AutoCreation(self.admin, self.metadata, config, broker.spawn, internal)

    def _create_internal(self) -> None:
        self.internal_created += 1

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
        while len(await self.topics()) < count:  # noqa: ASYNC110 - the store notifies only sessions.
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
        scene = AdminScene(broker)
        making = asyncio.create_task(scene.admin.create(scene.admin.plan(creatable(partitions=2)), timeout_ms=LONG_MS))
        await scene.written()
        scene.appear("orders", 1)
        await asyncio.sleep(0)
        scene.appear("orders", 2, leader=BrokerId(-1))
        await asyncio.sleep(0)
        assert not making.done()
        scene.appear("orders", 2)
        assert await making == topic_id_of("id-0")
        assert scene.metadata._listeners == []


async def test_configuration_and_assignment_are_in_the_store_together() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        planned = scene.admin.plan(creatable(segment_bytes="5000"))
        scene.appear("orders")  # The controller is quicker than the answer.
        await scene.admin.create(planned, timeout_ms=LONG_MS)
        assert await scene.topics() == ["orders"]
        assert await read_config(scene.session, "topics/orders") == {"segment.bytes": "5000"}


async def test_a_topic_creation_that_times_out_continues() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        assert (
            await code_of(scene.admin.create(scene.admin.plan(creatable()), timeout_ms=SHORT_MS))
            == ErrorCode.REQUEST_TIMED_OUT
        )
        assert await scene.topics() == ["orders"]
        assert scene.metadata._listeners == [], "no listener is left"


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_without_time_to_wait_a_topic_is_created_and_answered_with_a_timeout(timeout_ms: int) -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        planned = scene.admin.plan(creatable())
        scene.appear("orders")
        assert await code_of(scene.admin.create(planned, timeout_ms=timeout_ms)) == ErrorCode.REQUEST_TIMED_OUT
        assert await scene.topics() == ["orders"]


async def test_of_two_creations_of_one_topic_one_is_answered_that_it_exists() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        plans = [scene.admin.plan(creatable()) for _ in range(2)]
        scene.appear("orders")
        outcomes = await asyncio.gather(
            *(scene.admin.create(planned, timeout_ms=LONG_MS) for planned in plans), return_exceptions=True
        )
        (error,) = [outcome for outcome in outcomes if isinstance(outcome, BrokerError)]
        assert error.code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert refused(lambda: scene.admin.plan(creatable())) == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("value", [{"segment_bytes": "tiny"}, {"no_such_key": "1"}, {"segment_bytes": None}])
async def test_a_wrong_configuration_is_refused_before_anything_is_written(value: dict[str, str | None]) -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        assert refused(lambda: scene.admin.plan(creatable(**value))) == ErrorCode.INVALID_CONFIG


async def test_a_deleted_topic_is_answered_once_it_is_gone() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        scene.appear("orders", 2)
        await scene.session.create("/brokers/topics/orders", b"{}")
        deleting = asyncio.create_task(scene.admin.delete("orders", timeout_ms=LONG_MS))
        while await scene.session.exists("/admin/delete_topics/orders") is None:  # noqa: ASYNC110 - as above.
            await asyncio.sleep(0)
        scene.metadata.drop_partition("orders", 0)
        scene.metadata.changed()
        await asyncio.sleep(0)
        assert not deleting.done()
        scene.vanish("orders")
        await deleting


async def test_a_deletion_that_times_out_continues() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        scene.appear("orders")
        await scene.session.create("/brokers/topics/orders", b"{}")
        assert await code_of(scene.admin.delete("orders", timeout_ms=SHORT_MS)) == ErrorCode.REQUEST_TIMED_OUT
        assert await scene.session.exists("/admin/delete_topics/orders") is not None


async def test_deletion_can_be_disabled() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker, delete_topic_enable="false")
        scene.appear("orders")
        await scene.session.create("/brokers/topics/orders", b"{}")
        assert await code_of(scene.admin.delete("orders", timeout_ms=SHORT_MS)) == ErrorCode.TOPIC_DELETION_DISABLED
        with pytest.raises(NoNode):
            await scene.session.get("/admin/delete_topics/orders")


async def test_an_unknown_topic_is_auto_created_once_however_often_it_is_requested() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        codes = {scene.auto_creation.start("orders") for _ in range(100)}
        assert codes == {ErrorCode.LEADER_NOT_AVAILABLE}
        assert len(broker.tasks) == 1
        await scene.written()
        scene.appear("orders")
        await broker.settled()
        assert await scene.topics() == ["orders"]
        scene.vanish("orders")
        scene.auto_creation.start("orders")
        assert len(broker.tasks) == 1, "and again after it was deleted"
        for task in broker.tasks:
            task.cancel()
        broker.tasks.clear()


async def test_a_failed_auto_creation_can_be_requested_again() -> None:
    async with a_broker(entries={}) as broker:
        scene = AdminScene(broker, zookeeper_session_timeout_ms="1")
        for _ in range(2):
            assert scene.auto_creation.start("orders") == ErrorCode.LEADER_NOT_AVAILABLE
            await broker.settled()  # Once it takes too long, once it is there already.
        assert await scene.topics() == ["orders"]


@pytest.mark.parametrize("name", ["", ".", "..", "../../x", "a/b", "a\nb", "a" * 250, "ü"])
async def test_an_invalid_name_is_not_auto_created(name: str) -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        assert scene.auto_creation.start(name) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert not broker.tasks


async def test_auto_creation_can_be_disabled() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker, auto_create_topics_enable="false")
        assert scene.auto_creation.start("orders") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert scene.auto_creation.start("../x") == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert not broker.tasks


@pytest.mark.parametrize(("is_enabled", "created"), [("true", 1), ("false", 0)])
async def test_an_internal_topic_is_auto_created_with_its_own_settings_if_at_all(is_enabled: str, created: int) -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker, auto_create_topics_enable=is_enabled)
        code = scene.auto_creation.start("__consumer_offsets")
        assert code == (ErrorCode.LEADER_NOT_AVAILABLE if created else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert (scene.internal_created, len(broker.tasks)) == (created, 0)


async def test_concurrent_auto_creations_are_bounded() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker, sordini_create_partitions_max="9", num_partitions="3")
        codes = {scene.auto_creation.start(f"topic-{number}") for number in range(50)}
        assert codes == {ErrorCode.LEADER_NOT_AVAILABLE}, "clients of the others have to retry"
        assert len(broker.tasks) == 3
        await scene.written(3)
        for number in range(3):
            scene.appear(f"topic-{number}", 3)
        await broker.settled()
        scene.auto_creation.start("topic-40")
        assert len(broker.tasks) == 1
        await scene.written(4)
        scene.appear("topic-40", 3)
        await broker.settled()


@pytest.mark.parametrize(
    ("topics", "is_refused"),
    [
        ([creatable(partitions=10)], False),
        ([creatable(partitions=11)], True),
        ([creatable("a", 5), creatable("b", 6)], True),
        ([creatable(partitions=1_000_000_000)], True),
        ([creatable(partitions=-1), creatable("b", -1)], False),
        ([creatable(partitions=-1), creatable("b", -1), creatable("c", -1)], True),
        ([creatable(f"t{number}", -7) for number in range(10)], False),
        ([creatable(f"t{number}", 0) for number in range(11)], True),
    ],
)
async def test_one_request_creates_a_bounded_number_of_partitions(
    topics: list[CreatableTopic], is_refused: bool
) -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker, sordini_create_partitions_max="10", num_partitions="5")
        if is_refused:
            assert refused(lambda: scene.admin.check_size(topics)) == ErrorCode.POLICY_VIOLATION
        else:
            scene.admin.check_size(topics)


async def test_only_the_controller_changes_topics() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        scene.admin.check_controller()
        scene.metadata.set_brokers(OTHER, [known_broker()])
        assert refused(scene.admin.check_controller) == ErrorCode.NOT_CONTROLLER


def set_rack_of_one_broker(scene: AdminScene) -> None:
    others = known_broker(OTHER)._replace(rack="a")
    scene.metadata.set_brokers(ME, [known_broker(), others])


async def test_replicas_are_spread_over_the_racks_of_the_brokers() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        stands = {1: "a", 2: "a", 3: "b"}
        scene.metadata.set_brokers(ME, [known_broker(BrokerId(one))._replace(rack=stands[one]) for one in stands])
        planned = scene.admin.plan(CreatableTopic(name="orders", num_partitions=9, replication_factor=2))
        assert all({stands[one] for one in held} == {"a", "b"} for held in planned.replicas.values())


async def test_auto_creation_works_while_some_brokers_have_no_rack() -> None:
    async with a_broker() as broker:
        scene = AdminScene(broker)
        set_rack_of_one_broker(scene)
        assert refused(lambda: scene.admin.plan(creatable())) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert scene.admin.plan(creatable(), needs_racks=False).replicas
        assert scene.auto_creation.start("orders") == ErrorCode.LEADER_NOT_AVAILABLE
        await scene.written()
