"""DescribeTopicPartitions: the pages, and the cursor that leads from one to the next."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.requests.call import Call, VersionedApi
from sordini.broker.requests.slice_scheduler import first_slice
from sordini.broker.topics.describe_partitions_handler import TopicPagesHandler
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.metadata_handler import TOPIC_OPERATIONS
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId
from tests.support.parts import examples
from tests.support.unit_broker import a_broker, a_peer, led, topic_id_of

PAGES = ApiKey.DESCRIBE_TOPIC_PARTITIONS
XYZ = {"x": 3, "y": 2, "z": 1}


def a_handler(topics: dict[str, int], partitions_max: int = 2000) -> TopicPagesHandler:
    metadata = MetadataCache("a-cluster")
    for name, count in topics.items():
        for index in range(count):
            metadata.set_partition(name, topic_id_of(name), index, led())
    return TopicPagesHandler(metadata, partitions_max=partitions_max)


def respond(
    handler: TopicPagesHandler, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return first_slice(
        handler.handle(Call(VersionedApi(APIS[PAGES], 0, handler.route()), a_peer(), 1, "test", request))
    )


def page(response: DescribeTopicPartitionsResponse) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    rows = [(topic.name, [row.partition_index for row in topic.partitions]) for topic in response.topics]
    cursor = response.next_cursor
    return rows, None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def test_a_leader_that_cannot_be_reached_is_not_reported() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.peer = a_peer("ELSEWHERE")
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
        (row,) = broker.ask(PAGES, 0, request).topics[0].partitions
        assert (row.error_code, row.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, -1)


async def test_all_metadata_of_a_topic_is_in_the_response() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=4)
        broker.parts.metadata.set_partition("orders", topic_id_of("orders"), 1, led(BrokerId(-1)))
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
        answer = broker.ask(PAGES, 0, request)
        (topic,) = answer.topics
        assert answer.next_cursor is None
        assert (topic.error_code, topic.name, topic.topic_id) == (0, "orders", topic_id_of("orders"))
        assert topic.topic_authorized_operations == TOPIC_OPERATIONS
        first, second = topic.partitions
        assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 1, 4)
        assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ([1], [1], [])
        assert (first.eligible_leader_replicas, first.last_known_elr) == ([], [])
        assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


@pytest.mark.parametrize(
    ("limit", "rows", "cursor"),
    [
        (2000, [("x", [0, 1, 2]), ("y", [0, 1]), ("z", [0])], None),
        (6, [("x", [0, 1, 2]), ("y", [0, 1]), ("z", [0])], None),
        (5, [("x", [0, 1, 2]), ("y", [0, 1])], ("z", 0)),
        (4, [("x", [0, 1, 2]), ("y", [0])], ("y", 1)),
        (3, [("x", [0, 1, 2])], ("y", 0)),
        (2, [("x", [0, 1])], ("x", 2)),
        (1, [("x", [0])], ("x", 1)),
        (0, [("x", [0])], ("x", 1)),
        (-1, [("x", [0])], ("x", 1)),
    ],
)
def test_a_page_ends_when_it_is_full_with_a_cursor_to_the_next(
    limit: int, rows: list[tuple[str, list[int]]], cursor: tuple[str, int] | None
) -> None:
    handler = a_handler(XYZ)
    assert page(respond(handler, "z", "x", "y", "x", limit=limit)) == (rows, cursor)
    assert page(respond(handler, limit=limit)) == (rows, cursor), "the same when all are requested"


def test_no_page_is_larger_than_the_broker_allows() -> None:
    assert page(respond(a_handler(XYZ, partitions_max=4), "x", "y")) == ([("x", [0, 1, 2]), ("y", [0])], ("y", 1))


@pytest.mark.parametrize(
    ("cursor", "limit", "rows", "after"),
    [
        (("x", 2), 2, [("x", [2]), ("y", [0])], ("y", 1)),
        (("y", 1), 2000, [("y", [1]), ("z", [0])], None),
        (("x", 3), 2000, [("x", []), ("y", [0, 1]), ("z", [0])], None),
        (("z", 0), 2000, [("z", [0])], None),
    ],
)
def test_a_page_starts_at_the_cursor(
    cursor: tuple[str, int], limit: int, rows: list[tuple[str, list[int]]], after: tuple[str, int] | None
) -> None:
    assert page(respond(a_handler(XYZ), *XYZ, cursor=cursor, limit=limit)) == (rows, after)


@pytest.mark.parametrize("cursor", [("x", -1), ("w", 0), ("zz", 0)])
def test_an_invalid_cursor_is_rejected(cursor: tuple[str, int]) -> None:
    with pytest.raises(BrokerError) as refusal:
        respond(a_handler(XYZ), *XYZ, cursor=cursor)
    assert refusal.value.code == ErrorCode.INVALID_REQUEST


def test_a_cursor_into_a_topic_deleted_meanwhile_continues_behind_it_when_all_are_requested() -> None:
    assert page(respond(a_handler(XYZ), cursor=("xx", 1)))[0] == [("y", [0, 1]), ("z", [0])]


def test_unknown_topics_have_an_error_and_take_no_room_on_a_page() -> None:
    answer = respond(a_handler(XYZ), "a", "x", "../x", "__consumer_offsets", limit=3)
    assert [(topic.name, topic.error_code, topic.is_internal) for topic in answer.topics] == [
        ("../x", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        ("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        ("x", 0, False),
    ]
    assert answer.next_cursor is None
    assert page(respond(a_handler(XYZ), "x", "x1", limit=3)) == ([("x", [0, 1, 2])], ("x1", 0)), "a full page is full"


def test_a_refused_request_names_every_topic() -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="x"), TopicRequest(name="y")])
    answer = TopicPagesHandler.error_response(request, ErrorCode.INVALID_REQUEST)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("x", 42), ("y", 42)]


@settings(max_examples=examples(100), deadline=None)
@given(
    topics=st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 5)),
    named=st.booleans(),
    limits=st.lists(st.integers(-1, 7), min_size=1),
)
def test_all_pages_together_are_every_partition_once_whatever_their_sizes(
    topics: dict[str, int], named: bool, limits: list[int]
) -> None:
    handler = a_handler(topics)
    collected: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for index_of_page in range(100):
        rows, cursor = page(
            respond(handler, *(topics if named else ()), limit=limits[index_of_page % len(limits)], cursor=cursor)
        )
        collected += [(name, index) for name, indexes in rows for index in indexes]
        if cursor is None:
            break
    assert cursor is None
    assert collected == [(name, index) for name in sorted(topics) for index in range(topics[name])]
