"""How far a group is behind, on the kit: what a test reads, and what it asserts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sordini.client.lag.model import Condition
from sordini.testing import Kafka, make_kafka
from sordini.testing.arguments import ArgumentRefused
from tests.support.group_consumer import GroupConsumer, joined, poll_until

Join = Callable[..., GroupConsumer]
PROTOCOLS = ("classic", "consumer")


@pytest.fixture(scope="module")
def site() -> Iterator[Kafka]:
    with make_kafka(brokers=3) as made:
        yield made


@pytest.fixture
def broker(site: Kafka) -> Iterator[Kafka]:
    site.begin_test()
    yield site
    site.end_test()


@pytest.fixture
def join(broker: Kafka) -> Iterator[Join]:
    with ExitStack() as stack:
        yield lambda *names, **settings: stack.enter_context(joined(broker.bootstrap_servers, *names, **settings))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_is_behind_by_what_it_has_not_committed(broker: Kafka, join: Join, protocol: str) -> None:
    orders = broker.topic(partitions=3)
    broker.produce(orders, "figs", partition=0)
    broker.produce(orders, "dates", partition=1)
    group = f"behind-{protocol}"
    consumer = join(group, orders, **{"group.protocol": protocol})
    poll_until([consumer], lambda: len(consumer.values) == 2)
    broker.group(group).assert_caught_up(timeout_s=10)
    with broker.group(group).hold_heartbeats(), broker.on("OffsetCommit").fail("COORDINATOR_NOT_AVAILABLE"):
        broker.produce(orders, ["grapes", "plums", "pears"], partition=1)
        lag = broker.group(group).lag()
        assert (lag.lag, lag.members, lag.kind) == (3, 1, protocol)
        assert lag.oldest is not None
        assert (lag.oldest.partition, lag.oldest.unread is not None) == (1, True)
        with pytest.raises(AssertionError, match=f"group '{group}' has not caught up: {orders}:1"):
            broker.group(group).assert_caught_up()
    poll_until([consumer], lambda: len(consumer.values) == 5)
    broker.group(group).assert_caught_up(orders, timeout_s=10)


def test_a_group_that_has_committed_nothing_has_not_caught_up(broker: Kafka) -> None:
    with pytest.raises(AssertionError, match="group 'nobody' has not caught up: it has no committed offset"):
        broker.group("nobody").assert_caught_up()
    with pytest.raises(AssertionError, match="it has no committed offset"):
        broker.group("nobody").assert_caught_up(timeout_s=0.1)
    assert broker.group("nobody").lag().state == "Dead"


def test_a_group_whose_records_have_expired_has_not_caught_up(broker: Kafka, join: Join) -> None:
    orders = broker.topic()
    broker.produce(orders, "figs")
    with joined(broker.bootstrap_servers, "expired", orders) as consumer:
        poll_until([consumer], lambda: len(consumer.values) == 1)
        broker.group("expired").assert_caught_up(timeout_s=10)
    broker.produce(orders, ["dates", "plums"])
    broker.expire(orders)
    (row,) = broker.group("expired").lag(orders).partitions
    assert (row.condition, row.expired) == (Condition.EXPIRED, 2)
    with pytest.raises(AssertionError, match=f"{orders}:0: offset before the log start"):
        broker.group("expired").assert_caught_up()


def test_a_topic_must_be_a_name(broker: Kafka) -> None:
    with pytest.raises(ArgumentRefused):
        broker.group("any").lag(7)  # type: ignore[arg-type]
