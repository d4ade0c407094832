"""Draining brokers: the brokers that get the replicas of brokers that are to have none.

Pure. A replica on a drained broker moves to one other broker; every other replica stays. The new replica is in the
rack with the fewest replicas of the partition, so that a partition spans as many racks as before if the brokers
allow it. Within this rule the brokers' numbers of replicas, and then of preferred leaders, differ as little as
possible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from sordini.cli.commands.reassign.reassignment_plan import ReassignmentPlan, Replicas
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.replica_placement import Racks

NAMES_MAX = 5
"""Topics named in one error."""

_Links = defaultdict[BrokerId, defaultdict[BrokerId, dict[TopicPartition, None]]]


def drain_brokers(
    held: ReassignmentPlan,
    wanted: Collection[TopicPartition],
    leaving: Collection[BrokerId],
    racks: Racks,
    targets: Collection[BrokerId],
) -> ReassignmentPlan:
    """New replicas for those of the wanted partitions that are on a leaving broker.

    `held` has every partition of the cluster, for the brokers' loads. `racks` has the live brokers that stay, all with
    a rack or all without; `targets` are those that may take replicas. A new replica takes the position of the one it
    replaces. If that is the first, the preferred leader is the replica on the broker with the fewest preferred
    leaders, in a tie the new one.

    Raises ValueError with one argument for each replication factor that does not fit.
    """
    placed = {one: list(held[one]) for one in wanted if not set(leaving).isdisjoint(held[one])}
    _check_room(placed, leaving, targets)
    replicas = Counter(broker for row in held.values() for broker in row)
    leads = Counter(row[0] for row in held.values())
    ranked = sorted(targets, key=lambda broker: (leads[broker], broker))
    while open_places := dict(_open_places(placed, leaving)):
        options = {one: _options(placed[one], racks, ranked) for one in open_places}
        for one, broker in balance_choices(options, replicas).items():
            placed[one][open_places[one]] = broker
            replicas[broker] += 1
    headless = {one: [broker for broker in row if broker in racks] for one, row in placed.items()}
    leaders = balance_choices({one: row for one, row in headless.items() if held[one][0] in leaving}, leads)
    return {one: _led_by(leaders.get(one, row[0]), row) for one, row in placed.items()}


def balance_choices(
    options: Mapping[TopicPartition, Sequence[BrokerId]], load: Mapping[BrokerId, int]
) -> dict[TopicPartition, BrokerId]:
    """One option for each partition, so that the brokers' loads differ as little as possible.

    `load` is each broker's load before. The first choice is the least loaded broker, in a tie the first option. Then
    choices are shifted along chains of brokers from a higher load to one that is lower by two or more. Without such a
    chain the sum of the squares of all loads is minimal.
    """
    loads, chosen = Counter(load), dict[TopicPartition, BrokerId]()
    links: _Links = defaultdict(lambda: defaultdict(dict))
    for one in sorted(options, key=lambda one: (len(options[one]), one)):
        chosen[one] = min(options[one], key=loads.__getitem__)
        loads[chosen[one]] += 1
        _link(links, one, chosen[one], options[one])
    while chain := _chain(links, loads):
        for source, goal in pairwise(chain):
            one = next(iter(links[source][goal]))
            for other in options[one]:
                links[source][other].pop(one, None)
            chosen[one] = goal
            _link(links, one, goal, options[one])
        loads[chain[0]] -= 1
        loads[chain[-1]] += 1
    return chosen


def _link(links: _Links, one: TopicPartition, here: BrokerId, options: Sequence[BrokerId]) -> None:
    for other in options:
        if other != here:
            links[here][other][one] = None


def _chain(links: _Links, loads: Mapping[BrokerId, int]) -> list[BrokerId]:
    """Brokers along which one choice each can be shifted to even out the loads; empty if there is no such chain."""
    goals = {goal for ones in links.values() for goal in ones}
    lowest = min((loads[goal] for goal in goals), default=0)
    for source in sorted(links, key=lambda broker: (-loads[broker], broker)):
        if loads[source] - lowest < 2:
            break
        before: dict[BrokerId, BrokerId | None] = {source: None}
        reached = [source]
        for broker in reached:
            for other in sorted(other for other, ones in links[broker].items() if ones and other not in before):
                before[other] = broker
                reached.append(other)
                if loads[other] <= loads[source] - 2:
                    return _back_from(other, before)
    return []


def _back_from(end: BrokerId, before: Mapping[BrokerId, BrokerId | None]) -> list[BrokerId]:
    chain, broker = [end], before[end]
    while broker is not None:
        chain.append(broker)
        broker = before[broker]
    return chain[::-1]


def _check_room(
    placed: Mapping[TopicPartition, list[BrokerId]], leaving: Collection[BrokerId], targets: Collection[BrokerId]
) -> None:
    short: dict[tuple[int, tuple[BrokerId, ...]], dict[str, None]] = {}
    for one, row in sorted(placed.items()):
        room = {*targets, *row} - set(leaving)
        if len(room) < len(row):
            short.setdefault((len(row), tuple(sorted(room))), {})[one.topic] = None
    if short:
        raise ValueError(*(_too_few(factor, room, list(topics)) for (factor, room), topics in sorted(short.items())))


def _too_few(factor: int, room: Sequence[BrokerId], topics: Sequence[str]) -> str:
    named = ", ".join(topics[:NAMES_MAX])
    more = f" and {len(topics) - NAMES_MAX} more topics" if len(topics) > NAMES_MAX else ""
    left = ", ".join(map(str, room)) or "none"
    return f"not enough brokers remain for {named}{more}: {factor} needed, {len(room)} remaining ({left})"


def _open_places(
    placed: Mapping[TopicPartition, list[BrokerId]], leaving: Collection[BrokerId]
) -> Iterator[tuple[TopicPartition, int]]:
    """The first position of a leaving broker in each partition's replicas."""
    for one, row in placed.items():
        for place, broker in enumerate(row):
            if broker in leaving:
                yield one, place
                break


def _options(row: Sequence[BrokerId], racks: Racks, ranked: Sequence[BrokerId]) -> list[BrokerId]:
    """The brokers in the racks with the fewest replicas of the partition."""
    used = Counter(racks[broker] for broker in row if broker in racks)
    used[None] = 0  # An unknown rack does not count as one.
    free = [broker for broker in ranked if broker not in row]
    fewest = min(used[racks[broker]] for broker in free)
    return [broker for broker in free if used[racks[broker]] == fewest]


def _led_by(leader: BrokerId, row: Sequence[BrokerId]) -> Replicas:
    return (leader, *(broker for broker in row if broker != leader))
