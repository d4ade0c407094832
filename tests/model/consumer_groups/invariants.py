"""The laws of every state, and of every step of the coordinator.

One owner commits: of two clients that both believe to own a partition, one commit at most would be accepted.

Released first: a partition is assigned to a member only when no other client consumes it any more, unless that client
was removed from the group since it was answered.

Commits in order: a commit that is delayed is refused once another member was assigned the partition.

Epochs: group epoch, assignment epoch and the epoch of a member that stays never fall, over a move of the coordinator
neither, and a client that does not join again is sent no lower one.

The log is the group: folding the records gives what the coordinator has.

Progress: from here on heartbeats are answered, nothing is lost, and members that vanished are fenced. Then the group
becomes stable, every partition is consumed by one client, and clients and coordinator agree on it.

Types: what the machine asserts of itself (`check_invariants`), and a rebalance deadline runs just for members that have
something to give up.
"""

from __future__ import annotations

from typing import Any

from sordini.broker.groups.consumer.machine.machine import check_invariants
from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerGroupState
from tests.model.consumer_groups import rules
from tests.model.consumer_groups.state import (
    GROUP_ID,
    IN,
    NAMES,
    OUT,
    Client,
    Coordinator,
    World,
    frozen,
    partitions_of,
)

ONE_OWNER = "one owner commits"
RELEASED = "released first"
IN_ORDER = "commits in order"
EPOCHS = "epochs do not fall"
LOG = "the log is the group"
PROGRESS = "progress"
EVENTUALLY = "progress when rebalance timeouts have passed"
TYPES = "types"
ALL = frozenset({ONE_OWNER, RELEASED, IN_ORDER, EPOCHS, LOG, PROGRESS, TYPES})
"""What holds in every scope; PROGRESS is stronger than EVENTUALLY."""


def broken_in(coordinator: Coordinator) -> str:
    """The law that a coordinator breaks by itself, or an empty string."""
    if persistent(coordinator.group) != persistent(rules.folded(coordinator.log) or ConsumerGroup(GROUP_ID)):
        return LOG
    try:
        check_invariants(coordinator.group)
    except AssertionError:
        return TYPES
    unrevoked = {name for name, member in coordinator.group.members.items() if member.pending_revocation}
    return "" if coordinator.group.rebalance_deadlines_ms.keys() == unrevoked else TYPES


def persistent(group: ConsumerGroup) -> Any:
    """What the records of a group say."""
    owners = {topic: dict(names) for topic, names in group.owners.items() if names}
    return frozen((group.epoch, group.metadata_hash, group.assignment_epoch, group.members, group.targets, owners))


def assigned(group: ConsumerGroup, me: int) -> frozenset[int]:
    member = group.members.get(NAMES[me])
    return frozenset() if member is None else partitions_of(member.assigned)


def is_given_too_early(group: ConsumerGroup, clients: tuple[Client, Client]) -> bool:
    return any(
        not client.is_void and not client.owned.isdisjoint(assigned(group, 1 - me)) for me, client in enumerate(clients)
    )


def is_falling(before: ConsumerGroup, after: ConsumerGroup) -> bool:
    """Whether an epoch falls; of a member as long as it is one."""
    members = before.members.keys() & after.members.keys()
    return (
        after.epoch < before.epoch
        or after.assignment_epoch < before.assignment_epoch
        or any(after.members[name].epoch < before.members[name].epoch for name in members)
    )


def is_client_falling(before: Client, after: Client) -> bool:
    return before.phase == after.phase == IN and after.epoch < before.epoch


def is_settled(world: World) -> bool:
    """Whether the group is stable, and everyone knows it."""
    group, clients = world.coordinator.group, world.clients
    alive = [me for me, client in enumerate(clients) if client.phase != OUT]
    if not alive:
        return group.state is ConsumerGroupState.EMPTY
    owned = [partition for me in alive for partition in clients[me].owned]
    return (
        group.state is ConsumerGroupState.STABLE
        and group.members.keys() == {NAMES[me] for me in alive}
        and sorted(owned) == list(range(world.shared.partitions))
        and all(clients[me].phase == IN and clients[me].epoch == group.epoch for me in alive)
        and all(clients[me].owned == assigned(group, me) for me in alive)
    )
