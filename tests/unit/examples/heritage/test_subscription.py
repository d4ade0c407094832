"""What is in the node of a consumer's id."""

from __future__ import annotations

import pytest

from examples.heritage.assignment import Subscription, TopicFilter
from examples.heritage.errors import ConfigError

ALL_TOPICS = ["orders", "sales", "sales-2", "__consumer_offsets", "__transaction_state"]


def test_a_subscription_is_written_in_apache_kafka_s_form() -> None:
    data = Subscription("static", {"orders": 2, "sales": 1}).encode(1_416_000_000_000)
    assert data == (
        b'{"version":1,"subscription":{"orders":2,"sales":1},"pattern":"static","timestamp":"1416000000000"}'
    )
    assert Subscription.decode(data) == Subscription("static", {"orders": 2, "sales": 1})


def test_a_filter_is_written_as_its_regular_expression() -> None:
    assert TopicFilter(" 'orders, sales.*' ").subscription(3) == Subscription("white_list", {"orders|sales.*": 3})
    assert TopicFilter("orders", is_white=False).subscription(1) == Subscription("black_list", {"orders": 1})


@pytest.mark.parametrize(
    ("chosen", "topics"),
    [
        (TopicFilter("sales"), ["sales"]),
        (TopicFilter("sales.*,orders"), ["orders", "sales", "sales-2"]),
        (TopicFilter("sales", is_white=False), ["orders", "sales-2"]),
        (TopicFilter(".*"), ["orders", "sales", "sales-2"]),
    ],
)
def test_whole_names_match_and_internal_topics_never_do(chosen: TopicFilter, topics: list[str]) -> None:
    assert sorted(chosen.subscription(2).topics(ALL_TOPICS)) == topics


def test_topics_that_are_named_need_not_be_there_yet() -> None:
    assert Subscription("static", {"later": 2}).topics([]) == {"later": 2}


def test_what_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'orders\(' is no regular expression"):
        TopicFilter("orders(").subscription(1)


@pytest.mark.parametrize("data", [b"", b"1", b"{}", b'{"subscription":[]}', b'{"subscription":{"a":null}}', b"\xff"])
def test_what_is_no_subscription_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of json, of UTF-8, or ours.
        Subscription.decode(data)
