"""CreateTopics and DeleteTopics: each topic by itself, and requests for too much."""

from __future__ import annotations

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.unit_broker import OTHER, UnitBroker, a_broker, known_broker, topic_id_of

CREATE, DELETE = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS
HASTY = 1
"""Milliseconds: there is no controller here, so that every request times out."""


def wanted(*names: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreateTopicsRequest:
    entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=entries)
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=HASTY)


async def created(broker: UnitBroker, request: CreateTopicsRequest, version: int = 7) -> list[tuple[str, int]]:
    answer = await broker.ask_later(CREATE, version, request)
    return [(row.name, row.error_code) for row in answer.topics]


async def deleted(broker: UnitBroker, request: DeleteTopicsRequest, version: int = 6) -> list[tuple[str | None, int]]:
    answer = await broker.ask_later(DELETE, version, request)
    return [(row.name, row.error_code) for row in answer.responses]


def names(*given: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in given], timeout_ms=HASTY)


async def test_each_topic_has_its_own_answer() -> None:
    async with a_broker() as broker:
        await broker.lead("there")
        outcome = await created(broker, wanted("orders", "there", "twice", "twice", "../../x"))
        assert outcome == [
            ("orders", ErrorCode.REQUEST_TIMED_OUT),
            ("there", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("twice", ErrorCode.INVALID_REQUEST),
            ("twice", ErrorCode.INVALID_REQUEST),
            ("../../x", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        assert await broker.session.children("/brokers/topics") == ["orders"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../x", "a/b", "a\\b", "a\nb", "a\rb", "a\x00b", "a b", "a" * 250, "a" * 30_000, "ü"]
)
async def test_a_name_that_could_leave_the_directory_or_forge_a_line_is_refused(name: str) -> None:
    async with a_broker() as broker:
        before = broker.disk.tree()
        assert await created(broker, wanted(name)) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION)]
        assert await broker.session.children("/brokers/topics") == []
        assert broker.disk.tree() == before


async def test_the_longest_topic_name_is_accepted() -> None:
    async with a_broker() as broker:
        assert await created(broker, wanted("a" * 249)) == [("a" * 249, ErrorCode.REQUEST_TIMED_OUT)]


async def test_a_request_that_only_validates_creates_nothing_and_is_validated_alike() -> None:
    async with a_broker() as broker:
        request = wanted("orders")
        request.validate_only = True
        assert await created(broker, request) == [("orders", 0)]
        request = wanted("orders", segment_bytes="tiny")
        request.validate_only = True
        assert await created(broker, request) == [("orders", ErrorCode.INVALID_CONFIG)]
        assert await broker.session.children("/brokers/topics") == []


async def test_a_topic_that_is_being_deleted_exists_for_a_request_that_only_validates() -> None:
    async with a_broker() as broker:
        await broker.session.create("/brokers/topics/orders", b"{}")  # The metadata has forgotten it already.
        request = wanted("orders")
        request.validate_only = True
        assert await created(broker, request) == [("orders", ErrorCode.TOPIC_ALREADY_EXISTS)]


@pytest.mark.parametrize(
    ("partitions", "count"), [(1_000_000_000, 1), (2**31 - 1, 3), (1, 10_001), (-1, 10_001), (0, 10_001)]
)
async def test_a_request_for_too_much_is_refused_as_a_whole(partitions: int, count: int) -> None:
    async with a_broker() as broker:
        outcome = await created(broker, wanted(*(f"topic-{number}" for number in range(count)), partitions=partitions))
        assert {code for _, code in outcome} == {ErrorCode.POLICY_VIOLATION}
        assert len(outcome) == count
        assert await broker.session.children("/brokers/topics") == []


async def test_deleting_too_many_at_once_is_refused_as_a_whole() -> None:
    async with a_broker() as broker:
        outcome = await deleted(broker, names(*["orders"] * 10_001))
        assert {code for _, code in outcome} == {ErrorCode.POLICY_VIOLATION}


async def test_only_the_controller_creates_and_deletes_topics() -> None:
    async with a_broker() as broker:
        broker.parts.metadata.set_brokers(OTHER, [known_broker()])
        assert await created(broker, wanted("orders")) == [("orders", ErrorCode.NOT_CONTROLLER)]
        assert await deleted(broker, names("orders")) == [("orders", ErrorCode.NOT_CONTROLLER)]


async def test_topics_are_deleted_by_name_or_by_id_and_not_by_both() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await broker.lead("bills")
        for name in ("orders", "bills"):
            await broker.session.create(f"/brokers/topics/{name}", b"{}")
        request = DeleteTopicsRequest(
            topics=[
                DeleteTopicState(name="orders"),
                DeleteTopicState(name=None, topic_id=topic_id_of("bills")),
                DeleteTopicState(name=None, topic_id=topic_id_of("nothing")),
                DeleteTopicState(name="orders", topic_id=topic_id_of("orders")),
                DeleteTopicState(name="nothing"),
                DeleteTopicState(name=None),
            ],
            timeout_ms=HASTY,
        )
        assert await deleted(broker, request) == [
            ("orders", ErrorCode.REQUEST_TIMED_OUT),
            ("bills", ErrorCode.REQUEST_TIMED_OUT),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
            ("orders", ErrorCode.INVALID_REQUEST),
            ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (None, ErrorCode.INVALID_REQUEST),
        ]
        assert await broker.session.children("/admin/delete_topics") == ["bills", "orders"]


async def test_old_versions_delete_by_a_list_of_names() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await broker.session.create("/brokers/topics/orders", b"{}")
        request = DeleteTopicsRequest(topic_names=["orders", "nothing"], timeout_ms=HASTY)
        assert await deleted(broker, request, 3) == [
            ("orders", ErrorCode.REQUEST_TIMED_OUT),
            ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
