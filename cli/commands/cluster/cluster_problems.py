"""The problems of a cluster, from its brokers' responses: one sentence for each broker and kind of problem.

Pure. Anything unknown is a problem: a broker that does not answer, a partition that its leader does not report, a
coordination store that cannot be read.

Only Sordini brokers read the store when they are queried (`broker/cluster/health.py`). Apache Kafka brokers, and
Sordini versions without these keys, do not report their contact, and get no other request for it: a request for which
Apache Kafka reads from ZooKeeper blocks one of its request threads until ZooKeeper answers. Their registration in the
store stands for them: it exists as long as the broker's session, so a Sordini broker that reads it there knows that
ZooKeeper has heard from that broker within a session timeout. In a cluster without Sordini the contact is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from sordini.broker.cluster.health_keys import (
    NONE,
    SERVING,
    STORE_BROKERS,
    STORE_CONTACT,
    STORE_CONTROLLER,
    UNREACHED,
    YES,
    StoreFinding,
)
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

H = TypeVar("H", bound=Hashable)

EXAMPLES_MAX: Final = 3
"""Partitions named in a sentence; of more it has the number."""
DIGITS_MAX: Final = 10
"""Of a broker's id."""
REGISTERED, NOT_REGISTERED, NOT_KNOWN = "registered", "not registered", "not known"
"""The contact of a broker that does not report it."""
NO_WITNESS: Final = "no Sordini of this version that is connected to the store reports it"
CONTACTS: Final = {
    StoreFinding.SILENT.value: "gets no answer from the coordination store",
    StoreFinding.LOST.value: "does not find its cluster in the coordination store",
    StoreFinding.UNREGISTERED.value: "is not registered in the coordination store",
}


class BrokerView(NamedTuple):
    """One broker's view of the cluster and of itself."""

    cluster_id: str | None
    controller: int
    brokers: frozenset[int]
    leaders: Mapping[TopicPartition, tuple[int, int]]
    """Leader and leader epoch; each is -1 if there is none."""
    states: Mapping[str, str | None]
    """Values of `health_keys`; empty for a broker that does not know them."""
    refusal: str | None = None
    """The error with which the broker refused to describe itself under the id in the metadata."""


class NamedController(NamedTuple):
    """The controller in the metadata, and the error if that broker does not act as the controller."""

    controller: int | None
    refusal: str | None = None


def is_under_replicated(row: Mapping[str, Any]) -> bool:
    """Whether a partition has replicas that are not in sync."""
    return len(row["in_sync_replicas"]) < len(row["replicas"])


def store_states(views: Mapping[int, BrokerView]) -> dict[int, str]:
    """The contact of each broker with the store: as it reports it, or by its registration."""
    registered = _registered(views)
    states = {}
    for broker, view in views.items():
        contact = view.states.get(STORE_CONTACT)
        if contact is None:
            contact = NOT_KNOWN if registered is None else REGISTERED if broker in registered else NOT_REGISTERED
        states[broker] = contact
    return states


def find_problems(
    named: NamedController,
    there: Collection[int],
    views: Mapping[int, BrokerView],
    silent: Mapping[int, str],
    rows: Sequence[Mapping[str, Any]],
) -> list[str]:
    """All problems; `there` are the brokers in the metadata, `rows` the partitions."""
    found: list[str] = []
    found += _of_controller(named)
    found += (f"broker {broker} does not answer: {reason}" for broker, reason in sorted(silent.items()))
    found += _unreached(named, views)
    found += _gone(there, rows)
    found += (
        f"broker {one} refused to describe itself: {view.refusal}"
        for one, view in sorted(views.items())
        if view.refusal
    )
    found += _of_store(named, there, views)
    found += _disagreements(views)
    found += _other_leaders(views, rows)
    found += _of_partitions(silent, rows)
    return found


def _of_controller(named: NamedController) -> Iterator[str]:
    if named.controller is None:
        yield "the cluster has no controller"
    elif named.refusal is not None:
        yield f"broker {named.controller} is the controller in the metadata but does not act as one: {named.refusal}"


def _unreached(named: NamedController, views: Mapping[int, BrokerView]) -> Iterator[str]:
    """Brokers without the controller's commands have other leaders, or none: this is the cause, and comes first."""
    for broker, view in sorted(views.items()):
        if reasons := view.states.get(UNREACHED):
            who = f"broker {broker}, the controller," if broker == named.controller else f"broker {broker}"
            yield (
                f"commands of {who} do not reach {reasons} (each broker's advertised.listeners need a name and a port "
                "that all brokers can connect to)"
            )


def _gone(there: Collection[int], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    counts: dict[int, int] = {}
    for row in rows:
        for broker in row["replicas"]:
            if broker not in there:
                counts[broker] = counts.get(broker, 0) + 1
    for broker, count in sorted(counts.items()):
        yield f"broker {broker} is gone and still has {_partitions(count, 'a replica', 'replicas')}"


def _of_store(named: NamedController, there: Collection[int], views: Mapping[int, BrokerView]) -> Iterator[str]:
    for broker, view in sorted(views.items()):
        state, _, reason = (view.states.get(STORE_CONTACT) or "").partition(": ")
        if state and state != StoreFinding.CONNECTED.value:
            yield f"broker {broker} {CONTACTS.get(state, f'reports of the coordination store: {state}')} ({reason})"
        serving = view.states.get(SERVING, YES)
        if serving != YES and state != StoreFinding.LOST.value:
            yield f"broker {broker} does not serve: {(serving or '').removeprefix('no: ')}"
    registered = _registered(views)
    if registered is None:
        others = [broker for broker, view in sorted(views.items()) if STORE_CONTACT not in view.states]
        if others:
            yield f"the contact of {_brokers(others)} with the coordination store is not known: {NO_WITNESS}"
        return
    for broker in sorted(set(there) - registered):
        contact = views[broker].states.get(STORE_CONTACT, "") if broker in views else ""
        if not (contact or "").startswith(StoreFinding.UNREGISTERED.value):
            yield f"broker {broker} is not registered in the coordination store"
    for broker in sorted(registered - set(there)):
        yield f"broker {broker} is registered in the coordination store but not in the metadata"
    for controller in sorted({view.states.get(STORE_CONTROLLER) or "" for view in _connected(views)}):
        if controller == NONE:
            yield "the coordination store has no controller"
        elif named.controller is not None and controller != str(named.controller):
            yield f"the controller in the coordination store is broker {controller}, not {named.controller}"


def _disagreements(views: Mapping[int, BrokerView]) -> Iterator[str]:
    """What all brokers should agree on, and do not."""
    for what, contact in (
        ("the cluster id", {one: view.cluster_id or NOT_KNOWN for one, view in views.items()}),
        ("the controller", {one: str(view.controller) for one, view in views.items()}),
        ("the live brokers", {one: ", ".join(map(str, sorted(view.brokers))) for one, view in views.items()}),
    ):
        groups = _grouped(contact)
        if len(groups) > 1:
            parts = (f"{value} on {_brokers(sorted(ids))}" for value, ids in sorted(groups.items()))
            yield f"the brokers disagree on {what}: {'; '.join(parts)}"


def _other_leaders(views: Mapping[int, BrokerView], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Brokers with other leaders than the metadata of the first broker."""
    leaders = {TopicPartition(row["topic"], row["partition"]): (row["leader"], row["leader_epoch"]) for row in rows}
    for broker, view in sorted(views.items()):
        other = [name for name, led in leaders.items() if not _is_same(led, view.leaders.get(name))]
        other += [name for name in view.leaders if name not in leaders]
        if other:
            name = other[0]
            yield (
                f"broker {broker} has {_partitions(len(other), 'another leader', 'other leaders')}: for {name} "
                f"{_led(view.leaders.get(name))} instead of {_led(leaders.get(name))}"
            )


def _of_partitions(silent: Collection[int], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    leaderless, lacking = [], []
    refused: dict[tuple[int, str], list[str]] = {}
    for row in rows:
        name, leader = f"{row['topic']}-{row['partition']}", row["leader"]
        if leader is None:
            leaderless.append(name)
        elif row["leader_refuses"] is not None:
            refused.setdefault((leader, row["leader_refuses"]), []).append(name)
        elif row["high_watermark"] is None and leader not in silent:
            refused.setdefault((leader, "no answer"), []).append(name)
        if is_under_replicated(row):
            lacking.append(name)
    for (leader, code), names in sorted(refused.items()):
        yield f"broker {leader} refuses to lead its partitions ({code}): {_examples(names)}"
    if leaderless:
        yield f"partitions without a leader: {_examples(leaderless)}"
    if lacking:
        yield f"partitions whose replicas are not all in sync: {_examples(lacking)}"


def _connected(views: Mapping[int, BrokerView]) -> list[BrokerView]:
    return [view for view in views.values() if view.states.get(STORE_CONTACT) == StoreFinding.CONNECTED.value]


def _registered(views: Mapping[int, BrokerView]) -> set[int] | None:
    """The brokers registered in the store, as connected Sordini brokers report; None if there is none."""
    contact = [view.states.get(STORE_BROKERS) or "" for view in _connected(views)]
    return (
        {int(one) for ids in contact for one in ids.split(",") if one.isdecimal() and len(one) <= DIGITS_MAX}
        if contact
        else None
    )


def _is_same(led: tuple[int | None, int | None], other: tuple[int, int] | None) -> bool:
    """Whether two brokers have the same leader for a partition and, if both know it, the same leader epoch."""
    if other is None:
        return False
    leader, epoch = led
    return other[0] == (-1 if leader is None else leader) and (epoch is None or other[1] in (-1, epoch))


def _led(led: tuple[int | None, int | None] | None) -> str:
    if led is None:
        return "no such partition"
    leader, epoch = led
    who = "no leader" if leader is None or leader < 0 else f"broker {leader}"
    return who if epoch is None or epoch < 0 else f"{who} in epoch {epoch}"


def _grouped(contact: Mapping[int, H]) -> dict[H, list[int]]:
    groups: dict[H, list[int]] = {}
    for broker, value in contact.items():
        groups.setdefault(value, []).append(broker)
    return groups


def _brokers(ids: Sequence[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {', '.join(map(str, ids))}"


def _partitions(count: int, one: str, more: str) -> str:
    return f"{one} of 1 partition" if count == 1 else f"{more} of {count} partitions"


def _examples(names: Sequence[str]) -> str:
    more = f" and {len(names) - EXAMPLES_MAX} more" if len(names) > EXAMPLES_MAX else ""
    return f"{', '.join(names[:EXAMPLES_MAX])}{more}"
