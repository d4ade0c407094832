"""What is wrong with a cluster by the answers of its brokers, and that nothing unknown passes for well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sordini.broker.cluster.health_keys import SERVING, STORE_BROKERS, STORE_CONTACT, STORE_CONTROLLER, UNREACHED
from sordini.cli.commands.cluster.cluster_problems import (
    EXAMPLES_MAX,
    NO_WITNESS,
    NOT_KNOWN,
    NOT_REGISTERED,
    REGISTERED,
    BrokerView,
    NamedController,
    find_problems,
    store_states,
)
from sordini.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
WORDS = {STORE_CONTACT: "connected", STORE_BROKERS: "1,2,3", STORE_CONTROLLER: "1", SERVING: "yes"}
SILENT = {STORE_CONTACT: "silent: no connection", STORE_BROKERS: None, STORE_CONTROLLER: None, SERVING: "yes"}
THERE = frozenset({1, 2, 3})


def a_view(states: Mapping[str, str | None] = WORDS, **changes: Any) -> BrokerView:
    return BrokerView("id", 1, THERE, {ORDERS: (1, 4)}, states)._replace(**changes)


def a_row(**changes: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "leader": 1,
        "leader_epoch": 4,
        "replicas": [1, 2, 3],
        "in_sync_replicas": [1, 2, 3],
        "high_watermark": 7,
        "leader_refuses": None,
        **changes,
    }


def problems(
    views: Mapping[int, BrokerView] | None = None,
    *rows: Mapping[str, Any],
    named: NamedController = NamedController(1),  # noqa: B008 - it never changes.
    there: frozenset[int] = THERE,
    silent: Mapping[int, str] | None = None,
) -> list[str]:
    """Of three brokers, of which those in `views` differ from one that is well."""
    all_views = {one: a_view() for one in there - (silent or {}).keys()} | dict(views or {})
    return find_problems(named, there, all_views, silent or {}, rows or [a_row()])


def test_a_cluster_in_which_all_is_well_has_no_problems() -> None:
    assert problems() == []


def test_a_broker_that_commands_do_not_reach_is_named_with_the_reason_before_what_follows_from_it() -> None:
    reason = "broker 2 at broker-2:9092: Name or service not known"
    views = {1: a_view({**WORDS, UNREACHED: reason}), 2: a_view(leaders={})}
    found = problems(views)
    assert found[0] == (
        f"commands of broker 1, the controller, do not reach {reason} (each broker's advertised.listeners need a name "
        "and a port that all brokers can connect to)"
    )
    assert any(text.startswith("broker 2 has another leader") for text in found[1:])
    assert problems({1: a_view({**WORDS, UNREACHED: ""})}) == []


def test_a_store_that_answers_no_broker_is_a_problem_of_each() -> None:
    views = {one: a_view(SILENT) for one in THERE}
    assert problems(views) == [
        f"broker {one} gets no answer from the coordination store (no connection)" for one in (1, 2, 3)
    ]
    assert set(store_states(views).values()) == {"silent: no connection"}


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        (
            {STORE_CONTACT: "lost: another id", SERVING: "no: another id"},
            "does not find its cluster in the coordination store (another id)",
        ),
        ({STORE_CONTACT: "unregistered: not there"}, "is not registered in the coordination store (not there)"),
        ({STORE_CONTACT: "moved: to the moon"}, "reports of the coordination store: moved (to the moon)"),
        ({SERVING: "no: starting"}, "does not serve: starting"),
    ],
)
def test_each_state_of_one_broker_is_one_problem(states: Mapping[str, str], problem: str) -> None:
    assert problems({2: a_view(WORDS | states)}) == [f"broker 2 {problem}"]


def test_the_store_speaks_for_brokers_that_do_not_speak_for_themselves() -> None:
    assert problems({3: a_view({})}) == []
    assert store_states({1: a_view(), 3: a_view({})})[3] == REGISTERED
    views = {1: a_view(WORDS | {STORE_BROKERS: "1,2"}), 2: a_view(WORDS | {STORE_BROKERS: "1,2"}), 3: a_view({})}
    assert problems(views) == ["broker 3 is not registered in the coordination store"]
    assert store_states(views)[3] == NOT_REGISTERED


def test_what_no_broker_can_tell_is_not_well() -> None:
    views = {1: a_view(SILENT), 2: a_view({}), 3: a_view({})}
    assert problems(views)[1:] == [
        f"the contact of brokers 2, 3 with the coordination store is not known: {NO_WITNESS}"
    ]
    assert store_states(views)[3] == NOT_KNOWN
    assert len(problems({one: a_view({}) for one in THERE})) == 1


def test_a_broker_that_is_registered_and_not_in_the_metadata_is_a_problem() -> None:
    there = frozenset({1, 2})
    views = {one: a_view(brokers=there) for one in there}
    row = a_row(replicas=[1, 2], in_sync_replicas=[1, 2])
    assert problems(views, row, there=there) == [
        "broker 3 is registered in the coordination store but not in the metadata"
    ]


@pytest.mark.parametrize(
    ("in_store", "reported"),
    [
        ("none", "the coordination store has no controller"),
        ("2", "the controller in the coordination store is broker 2, not 1"),
    ],
)
def test_another_controller_in_the_store_is_a_problem(in_store: str, reported: str) -> None:
    assert problems({one: a_view(WORDS | {STORE_CONTROLLER: in_store}) for one in THERE}) == [reported]


def test_no_controller_and_one_that_does_not_act_as_one_are_problems() -> None:
    assert problems(named=NamedController(None)) == ["the cluster has no controller"]
    assert problems(named=NamedController(1, "it: NOT_CONTROLLER")) == [
        "broker 1 is the controller in the metadata but does not act as one: it: NOT_CONTROLLER"
    ]


def test_a_broker_that_does_not_answer_and_one_that_is_gone_are_problems() -> None:
    assert problems(silent={2: "no answer within 5 s"}) == ["broker 2 does not answer: no answer within 5 s"]
    rows = [a_row(partition=number, replicas=[1, 9], in_sync_replicas=[1]) for number in range(5)]
    views = {one: a_view(leaders={TopicPartition("orders", number): (1, 4) for number in range(5)}) for one in THERE}
    assert problems(views, *rows) == [
        "broker 9 is gone and still has replicas of 5 partitions",
        f"partitions whose replicas are not all in sync: orders-0, orders-1, orders-2 and {5 - EXAMPLES_MAX} more",
    ]


def test_a_broker_that_is_another_than_its_address_says_is_a_problem() -> None:
    assert problems({2: a_view({**WORDS}, refusal="this is broker 7")}) == [
        "broker 2 refused to describe itself: this is broker 7"
    ]


def test_brokers_that_disagree_are_reported_with_what_each_says() -> None:
    assert problems({2: a_view(controller=3)}) == [
        "the brokers disagree on the controller: 1 on brokers 1, 3; 3 on broker 2"
    ]
    assert problems({2: a_view(cluster_id="other")}) == [
        "the brokers disagree on the cluster id: id on brokers 1, 3; other on broker 2"
    ]
    assert problems({2: a_view(brokers=frozenset({1, 2}))}) == [
        "the brokers disagree on the live brokers: 1, 2 on broker 2; 1, 2, 3 on brokers 1, 3"
    ]


@pytest.mark.parametrize(
    ("led", "reported"),
    [
        ((2, 4), "for orders-0 broker 2 in epoch 4 instead of broker 1 in epoch 4"),
        ((1, 3), "for orders-0 broker 1 in epoch 3 instead of broker 1 in epoch 4"),
        ((-1, 4), "for orders-0 no leader in epoch 4 instead of broker 1 in epoch 4"),
        (None, "for orders-0 no such partition instead of broker 1 in epoch 4"),
    ],
)
def test_a_broker_with_another_leader_or_leader_epoch_is_a_problem(led: tuple[int, int] | None, reported: str) -> None:
    leaders = {} if led is None else {ORDERS: led}
    assert problems({3: a_view(leaders=leaders)}) == [f"broker 3 has another leader of 1 partition: {reported}"]


def test_epochs_are_compared_where_both_brokers_know_them() -> None:
    assert problems({3: a_view(leaders={ORDERS: (1, -1)})}) == []
    assert problems({}, a_row(leader_epoch=None)) == []
    more = {ORDERS: (1, 4), TopicPartition("more", 0): (2, 0)}
    assert problems({3: a_view(leaders=more)}) == [
        "broker 3 has another leader of 1 partition: for more-0 broker 2 in epoch 0 instead of no such partition"
    ]


def test_a_leader_that_refuses_or_says_nothing_is_a_problem_unless_it_is_silent_altogether() -> None:
    assert problems({}, a_row(leader_refuses="NOT_LEADER_OR_FOLLOWER", high_watermark=None)) == [
        "broker 1 refuses to lead its partitions (NOT_LEADER_OR_FOLLOWER): orders-0"
    ]
    assert problems({}, a_row(high_watermark=None)) == ["broker 1 refuses to lead its partitions (no answer): orders-0"]
    assert problems({}, a_row(high_watermark=None), silent={1: "gone quiet"}) == [
        "broker 1 does not answer: gone quiet"
    ]


def test_a_partition_without_a_leader_is_a_problem() -> None:
    views = {one: a_view(leaders={ORDERS: (-1, 4)}) for one in THERE}
    assert problems(views, a_row(leader=None, high_watermark=None)) == ["partitions without a leader: orders-0"]
