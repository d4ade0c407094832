"""Links that are borrowed and returned, and attempts of a thread that are repeated."""

from __future__ import annotations

import pytest

from sordini.client.addresses import Address
from sordini.client.blocking_link import BlockingPorts
from sordini.client.cluster_core import Access
from sordini.client.errors import ClientError, Disconnected, Refused, Unauthorized, Unreachable
from sordini.client.link_pool import LinkPool
from sordini.client.retries import RetryRules
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import MetadataRequest
from tests.support.fake_cluster import TOPIC, FakeWorld

FIRST, SECOND = Address("fake", 1), Address("fake", 2)


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


def a_pool(world: FakeWorld, budget_s: float = 3.0) -> LinkPool:
    settings = world.settings()
    ports = BlockingPorts(lambda address: world.connect(address, settings), lambda: world.now, world.pause)
    access = Access((FIRST, SECOND), "me", answer_s=30.0)
    return LinkPool(access, ports, RetryRules(errors=(Unreachable,), budget_s=budget_s))


def test_a_link_that_was_returned_is_lent_again_and_one_with_a_request_in_flight_is_not(world: FakeWorld) -> None:
    pool = a_pool(world)
    first, second = pool.borrow(FIRST), pool.borrow(FIRST)
    assert first is not second
    second.send(MetadataRequest(topics=None))
    for link in (first, second):
        pool.give_back(link)
    assert not second.is_open
    assert pool.borrow(FIRST) is first
    assert world.opened == 2


def test_when_a_connection_broke_the_others_to_its_address_are_not_used_any_more(world: FakeWorld) -> None:
    pool = a_pool(world)
    first, second, other = pool.borrow(FIRST), pool.borrow(FIRST), pool.borrow(SECOND)
    for link in (second, other):
        pool.give_back(link)
    world.down = {1}
    with pytest.raises(Disconnected, match=r"fake:1 closed the connection before it answered \(the connection"):
        first.ask(MetadataRequest(topics=None))
    pool.give_back(first)
    assert [link.is_open for link in (first, second, other)] == [False, False, True]
    world.down.clear()
    assert pool.borrow(FIRST) not in (first, second)


def test_any_broker_is_an_open_link_before_it_is_another_address(world: FakeWorld) -> None:
    pool = a_pool(world)
    world.down = {1}
    with pool.link() as link:
        assert link.address == SECOND
    world.down.clear()
    assert pool.any_broker() is link
    assert pool.ask(MetadataRequest(topics=None)).topics[0].name == TOPIC


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            Refused("the group", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            "after 3 s: the group: coordinator load in progress (COORDINATOR_LOAD_IN_PROGRESS)",
        ),
        (Unreachable("no broker"), "no broker (tried for 3 s)"),
    ],
)
def test_the_error_that_lasted_for_the_whole_time_says_for_how_long(
    world: FakeWorld, error: ClientError, text: str
) -> None:
    def attempt() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        a_pool(world).retry(attempt)
    assert str(caught.value) == text
    assert sum(world.pauses) == pytest.approx(3)


def test_what_does_not_pass_is_raised_at_once(world: FakeWorld) -> None:
    def attempt() -> None:
        raise Unauthorized("no such user")

    with pytest.raises(Unauthorized, match=r"^no such user$"):
        a_pool(world).retry(attempt)
    assert not world.pauses


def test_a_pool_that_was_closed_has_no_open_links_and_opens_none(world: FakeWorld) -> None:
    pool = a_pool(world)
    lent, idle = pool.borrow(FIRST), pool.borrow(SECOND)
    pool.give_back(idle)
    pool.close()
    assert not lent.is_open
    assert not idle.is_open
    with pytest.raises(ClientError, match="this client is closed"):
        pool.retry(lambda: pool.ask(MetadataRequest(topics=None)))
    assert world.opened == 2
