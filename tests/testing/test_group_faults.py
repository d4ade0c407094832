"""Faults of groups by name, on groups of both protocols: with librdkafka's members, and with bare ones of our client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sordini.testing import GroupMember, Kafka, KitError
from sordini.testing.arguments import ArgumentRefused
from tests.support.bare_member import BareClassicMember, BareConsumerMember
from tests.support.group_consumer import GroupConsumer, joined, poll_until

Join = Callable[..., GroupConsumer]
Bare = Callable[..., BareConsumerMember]
BareClassic = Callable[..., BareClassicMember]
PROTOCOLS = ("classic", "consumer")
CLASSIC: dict[str, object] = {"group.protocol": "classic", "heartbeat.interval.ms": 50}
OF: dict[str, dict[str, object]] = {"classic": CLASSIC, "consumer": {}}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def join(broker: Kafka, stack: ExitStack) -> Join:
    """Members of groups, which leave at the end of the test."""
    return lambda *names, **settings: stack.enter_context(joined(broker.bootstrap_servers, *names, **settings))


@pytest.fixture
def bare(broker: Kafka, stack: ExitStack) -> Bare:
    """Members that send what the test says; their coordinator serves."""

    def made(group: str, *more: Any) -> BareConsumerMember:
        assert broker.members(group) is not None
        return stack.enter_context(BareConsumerMember(broker.bootstrap_servers, group, *more))

    return made


@pytest.fixture
def bare_classic(broker: Kafka, stack: ExitStack) -> BareClassic:
    """The same with the classic protocol."""

    def made(group: str, *more: Any) -> BareClassicMember:
        assert broker.members(group) is not None
        return stack.enter_context(BareClassicMember(broker.bootstrap_servers, group, *more))

    return made


# Members.


def test_members_of_a_consumer_group_have_epochs_and_both_assignments(broker: Kafka, join: Join) -> None:
    orders = broker.topic(partitions=2)
    first = join("described", orders, **{"group.instance.id": "till-1", "client.id": "till"})
    poll_until([first], lambda: first.partitions == [0, 1])
    (member,) = broker.members("described")
    both = ((orders, 0), (orders, 1))
    assert member == GroupMember(first.member_id, "till-1", "till", "consumer", member.epoch, both, both)
    group = broker.group("described").describe()
    assert (group.protocol, group.state, group.assignor, group.members) == ("consumer", "Stable", "uniform", (member,))
    assert group.epoch == group.assignment_epoch == member.epoch

    with broker.group("described").hold_heartbeats(member) as held:
        poll_until([first], lambda: held.used == 1)
        second = join("described", orders)
        poll_until([first, second], lambda: len(broker.members("described")) == 2)
        owner, newcomer = sorted(broker.members("described"), key=lambda one: one.id != first.member_id)
        assert (owner.assigned, len(owner.target), len(newcomer.target)) == (both, 1, 1)
        assert newcomer.assigned == (), "the first one has not been told to revoke anything"
        group = broker.group("described").describe()
        assert group.epoch is not None
        assert owner.epoch == member.epoch == group.epoch - 1
    poll_until([first, second], lambda: len(first.partitions) == 1 == len(second.partitions))


def test_members_of_a_classic_group_have_an_assignment_and_no_epochs(broker: Kafka, join: Join) -> None:
    orders = broker.topic(partitions=2)
    first = join("classics", orders, **CLASSIC, **{"group.instance.id": "till-1", "client.id": "till"})
    poll_until([first], lambda: first.partitions == [0, 1])
    both = ((orders, 0), (orders, 1))
    assert broker.members("classics") == [
        GroupMember(first.member_id, "till-1", "till", "classic", None, both, both),
    ]
    group = broker.group("classics").describe()
    assert (group.protocol, group.state, group.epoch, group.assignment_epoch) == ("classic", "Stable", None, None)
    assert group.assignor == "range"


def test_a_group_of_both_protocols_says_which_member_speaks_which(broker: Kafka, join: Join) -> None:
    orders = broker.topic(partitions=2)
    old = join("both", orders, **CLASSIC)
    poll_until([old], lambda: old.partitions == [0, 1])
    new = join("both", orders)
    poll_until([old, new], lambda: len(new.partitions) == 1 == len(old.partitions))
    protocols = {one.id: (one.protocol, len(one.assigned)) for one in broker.members("both")}
    assert protocols == {old.member_id: ("classic", 1), new.member_id: ("consumer", 1)}
    assert all(one.epoch == broker.group("both").describe().epoch for one in broker.members("both"))


def test_a_group_that_does_not_exist_is_dead(broker: Kafka) -> None:
    group = broker.group("unknown").describe()
    assert group == ("unknown", None, "Dead", None, None, "", ())


def test_a_member_is_expelled_as_it_was_described(broker: Kafka, bare: Bare) -> None:
    orders = broker.topic()
    for number in (1, 2, 3):
        bare("leaving", orders, f"i-{number}").join()
    first, second, third = broker.members("leaving")
    broker.expel("leaving", first)
    broker.expel("leaving", [second, third.id])
    assert broker.members("leaving") == []


# Fencing.


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fenced_member_loses_its_partitions_and_joins_again_and_others_do_not(
    broker: Kafka, join: Join, protocol: str
) -> None:
    orders = broker.topic(partitions=2)
    group = f"fenced-{protocol}"
    first = join(group, orders, **OF[protocol])
    second = join(group, orders, **OF[protocol])
    poll_until([first, second], lambda: len(first.partitions) == 1 == len(second.partitions))
    with broker.group(group).fence(first.member_id) as fault:
        poll_until([first, second], lambda: first.losses == 1)
        assert fault.used == 1
    poll_until([first, second], lambda: len(first.partitions) == 1 == len(second.partitions))
    assert (first.losses, second.losses) == (1, 0)


def test_the_heartbeat_of_a_fenced_member_is_refused_once(broker: Kafka, bare: Bare) -> None:
    orders = broker.topic()
    first, second = bare("once", orders, "first"), bare("once", orders, "second")
    for member in (first, second):
        member.join()
    fault = broker.group("once").fence(first.id)
    for member in (second, first, first, second):
        member.beat()
    assert (first.errors, second.errors) == (["NONE", "FENCED_MEMBER_EPOCH", "NONE"], ["NONE"] * 3)
    assert fault.used == 1
    assert (
        f"ConsumerGroupHeartbeat of group once, member id {first.id} fails with FENCED_MEMBER_EPOCH, used 1 of 1"
        in (broker.report())
    )


def test_the_heartbeat_of_a_fenced_classic_member_is_of_a_generation_that_is_gone(
    broker: Kafka, bare_classic: BareClassic
) -> None:
    member = bare_classic("generations", broker.topic())
    member.join()
    member.beat()
    broker.group("generations").fence(member.id)
    for _ in range(2):
        member.beat()
    assert member.errors == ["NONE", "NONE", "ILLEGAL_GENERATION", "NONE"]


def test_a_static_member_is_fenced_by_its_instance_id_which_heartbeats_need_not_have(broker: Kafka, bare: Bare) -> None:
    orders = broker.topic()
    member, other = bare("statics", orders, "till-1"), bare("statics", orders, "till-2")
    for one in (member, other):
        one.join()
        one._instance_id = None
    with broker.group("statics").fence(instance_id="till-1"):
        for one in (other, member):
            one.beat()
    assert (member.errors[1:], other.errors[1:]) == (["FENCED_MEMBER_EPOCH"], ["NONE"])


# Heartbeats that are held.


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_whose_heartbeats_are_held_revokes_nothing_until_they_are_released(
    broker: Kafka, join: Join, protocol: str
) -> None:
    orders = broker.topic(partitions=2)
    group = f"held-{protocol}"
    first = join(group, orders, **OF[protocol])
    poll_until([first], lambda: first.partitions == [0, 1])
    with broker.group(group).hold_heartbeats(first.member_id) as fault:
        poll_until([first], lambda: fault.used == 1)
        second = join(group, orders, **OF[protocol])
        poll_until([first, second], lambda: len(broker.members(group)) == 2)
        assert (first.partitions, second.partitions) == ([0, 1], [])
        fault.release()
        poll_until([first, second], lambda: len(first.partitions) == 1 == len(second.partitions))


def test_heartbeats_of_members_that_join_later_are_held_in_a_group_of_either_protocol(
    broker: Kafka, bare: Bare, join: Join
) -> None:
    orders = broker.topic()
    with broker.group("later").hold_heartbeats() as fault:
        member = join("later", orders)
        poll_until([member], lambda: fault.used == 1)
        assert member.partitions == []
        assert len(broker.members("later")) == 1, "its first heartbeat was handled"
        other = bare("others", orders)
        other.join()
        assert other.errors == ["NONE"], "of another group nothing is held"
    poll_until([member], lambda: member.partitions == [0])
    with broker.group("later classics").hold_heartbeats() as fault:
        old = join("later classics", orders, **CLASSIC)
        poll_until([old], lambda: fault.used == 1)


def test_heartbeats_of_other_members_are_answered_while_those_of_one_are_held(broker: Kafka, bare: Bare) -> None:
    orders = broker.topic()
    held, other = bare("one", orders, "held"), bare("one", orders, "other")
    for member in (held, other):
        member.join()
    with broker.group("one").hold_heartbeats(instance_id="held") as fault:
        other.beat()
        assert (other.errors, fault.used) == (["NONE", "NONE"], 0)
        waiting = Thread(target=held.beat)
        waiting.start()
        broker.wait_for(lambda: fault.used == 1)
        assert held.errors == ["NONE"], "its answer is kept"
        fault.release()
        waiting.join()
    assert held.errors == ["NONE", "NONE"]


def test_a_member_whose_first_heartbeat_is_held_unhandled_is_no_member_until_it_is_released(
    broker: Kafka, join: Join
) -> None:
    orders = broker.topic()
    with broker.group("unhandled").hold_heartbeats(before=True) as fault:
        member = join("unhandled", orders)
        poll_until([member], lambda: fault.used == 1)
        assert broker.members("unhandled") == []
        fault.release()
        poll_until([member], lambda: member.partitions == [0])


# Sessions.


def test_the_session_of_an_idle_member_ends_when_the_clock_is_advanced_by_it(broker: Kafka, bare: Bare) -> None:
    orders = broker.topic()
    idle, active = bare("sessions", orders, "idle"), bare("sessions", orders, "active")
    for member in (idle, active):
        member.join()
    for _ in range(2):
        broker.clock.advance(22)
        active.beat()
    assert {one.id for one in broker.members("sessions")} == {idle.id, active.id}, "45 s have not passed"
    broker.clock.advance(2)
    assert [one.id for one in broker.members("sessions")] == [active.id]
    idle.beat()
    assert idle.errors == ["NONE", "UNKNOWN_MEMBER_ID"]
    active.beat()
    assert set(active.errors) == {"NONE"}


def test_the_session_of_an_idle_classic_member_ends_when_the_clock_is_advanced_by_it(
    broker: Kafka, bare_classic: BareClassic
) -> None:
    idle = bare_classic("classic sessions", broker.topic())
    idle.join(session_timeout_ms=10_000)
    broker.clock.advance(9)
    assert [one.id for one in broker.members("classic sessions")] == [idle.id]
    broker.clock.advance(2)
    assert broker.members("classic sessions") == []
    idle.beat()
    assert idle.errors == ["NONE", "UNKNOWN_MEMBER_ID"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_session_of_a_member_whose_heartbeats_are_held_unhandled_ends_by_the_clock(
    broker: Kafka, join: Join, protocol: str
) -> None:
    orders = broker.topic()
    group = f"absent-{protocol}"
    broker.produce(orders, "one")
    member = join(group, orders, **OF[protocol])
    poll_until([member], lambda: broker.committed(group) == {(orders, 0): 1})
    with broker.group(group).hold_heartbeats(member.member_id, before=True) as fault:
        poll_until([member], lambda: fault.used == 1)
        broker.clock.advance(46)
        assert broker.members(group) == []
    poll_until([member], lambda: member.losses == 1 and member.partitions == [0])


# Assignors.


def test_an_assignor_is_refused_to_the_members_that_request_it(broker: Kafka, join: Join) -> None:
    orders = broker.topic()
    with broker.group("refused").refuse_assignor("range") as fault:
        other = join("refused", orders)
        poll_until([other], lambda: other.partitions == [0])
        assert fault.used == 0
        member = join("refused", orders, **{"group.remote.assignor": "range"})
        poll_until([member, other], lambda: member.errors != [])
    assert [error.code() for error in member.errors] == [KafkaError._FATAL]
    assert other.errors == []
    assert [one.id for one in broker.members("refused")] == [other.member_id]


@pytest.mark.parametrize(
    ("protocol", "code"), [("classic", "INCONSISTENT_GROUP_PROTOCOL"), ("consumer", "UNSUPPORTED_ASSIGNOR")]
)
def test_every_assignor_is_refused_where_none_is_named(
    broker: Kafka, bare: Bare, bare_classic: BareClassic, protocol: str, code: str
) -> None:
    orders = broker.topic()
    group = f"none-{protocol}"
    member: Any = (bare if protocol == "consumer" else bare_classic)(group, orders)
    fault = broker.group(group).refuse_assignor()
    member.join()
    assert (member.errors, fault.used) == ([code], 1)
    fault.undo()
    member.id = ""
    member.join()
    assert member.errors == [code, "NONE"]


def test_a_classic_member_is_refused_an_assignor_among_those_that_it_offers(
    broker: Kafka, bare_classic: BareClassic
) -> None:
    member = bare_classic("offers", broker.topic())
    with broker.group("offers").refuse_assignor("range"):
        member.join("roundrobin")
        member.id = ""
        member.join("range")
    assert member.errors == ["NONE", "INCONSISTENT_GROUP_PROTOCOL"]


# What cannot be.


WRONG: list[tuple[Callable[[Kafka], object], str]] = [
    (lambda kafka: kafka.group(""), "group='': allowed is a text"),
    (lambda kafka: kafka.group("g").fence(), "member=None: allowed is the id of a member, or instance_id="),
    (lambda kafka: kafka.group("g").fence("a", instance_id="b"), "instance_id='b': allowed is None beside member="),
    (lambda kafka: kafka.group("g").fence(7), "member=7: allowed is a text"),  # type: ignore[arg-type]
    (lambda kafka: kafka.group("g").fence(["a", "b"]), r"member=\['a', 'b'\]: allowed is the id of one member"),  # type: ignore[arg-type]
    (lambda kafka: kafka.group("g").fence(instance_id=""), "instance_id='': allowed is a text"),
    (lambda kafka: kafka.group("g").hold_heartbeats(before="yes"), "before='yes': allowed is True or False"),  # type: ignore[arg-type]
    (lambda kafka: kafka.group("g").hold_heartbeats(""), "member='': allowed is a text"),
    (lambda kafka: kafka.group("g").refuse_assignor(7), "assignor=7: allowed is a text"),  # type: ignore[arg-type]
    (lambda kafka: kafka.group("g").refuse_assignor().release(), "nothing is held: ConsumerGroupHeartbeat of group g"),
    (lambda kafka: kafka.on("Produce", member_id="a"), "a request Produce names no member id"),
    (lambda kafka: kafka.on("Heartbeat", assignor="range"), "a request Heartbeat names no assignor"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[row[1] for row in WRONG])
def test_a_fault_of_a_group_that_cannot_mean_anything_is_refused(
    broker: Kafka, call: Callable[[Kafka], object], said: str
) -> None:
    with pytest.raises(ArgumentRefused, match=said):
        call(broker)


def test_a_member_that_is_not_there_is_refused_with_those_that_are(broker: Kafka, bare: Bare) -> None:
    group = broker.group("listed")
    with pytest.raises(KitError, match="group 'listed' has no member 'x': there is none"):
        group.fence("x")
    bare("listed", broker.topic(), "till-1").join()
    with pytest.raises(KitError, match="group 'listed' has no member 'x': there are 'bare-till-1'"):
        group.fence("x")
    with pytest.raises(KitError, match="group 'listed' has no member with the instance id 'x': there are 'till-1'"):
        group.hold_heartbeats(instance_id="x")


def test_requests_are_selected_by_the_member_that_sends_or_is_named_by_them(broker: Kafka, bare: Bare) -> None:
    orders = broker.topic()
    first, second = bare("selected", orders, "first"), bare("selected", orders, "second")
    for member in (first, second):
        member.join()
    with broker.on("ConsumerGroupHeartbeat", member_id=second.id).fail("UNKNOWN_MEMBER_ID"):
        for member in (first, second):
            member.beat()
    assert (first.errors, second.errors) == (["NONE", "NONE"], ["NONE", "UNKNOWN_MEMBER_ID"])
