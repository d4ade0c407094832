"""The versions of requests between brokers, by the setting `inter.broker.protocol.version`.

The sender's setting decides, without negotiation: a receiver that does not know the version closes the connection, and
the sender retries for ever. So all brokers of a cluster run with one setting, which the oldest of them knows.
AlterPartition and AllocateProducerIds are negotiated: their sender requests ApiVersions first and uses the newest
version that both know, up to the maximum given here.
"""

from __future__ import annotations

from typing import Final

from sordini.system.named_tuple import NamedTuple


class InterBrokerVersions(NamedTuple):
    """The versions under one setting, and the behaviour that depends on it."""

    leader_and_isr: int = 4
    update_metadata: int = 6
    stop_replica: int = 3
    controlled_shutdown: int = 3
    fetch: int = 11
    """12 at most for a request with a topic that has no id (KIP-516)."""
    offset_for_leader_epoch: int = 3
    list_offsets: int = 5
    write_txn_markers: int = 0
    alter_partition_max: int = 1
    """Above 1 topics have ids."""
    alters_isr_in_store: bool = True
    """A leader writes its in-sync set to the coordination store itself, with a notification node; else it sends the
    controller AlterPartition (KIP-497)."""
    truncates_on_fetch: bool = False
    """The response to Fetch says where a follower's log diverges; else the follower sends OffsetForLeaderEpoch before
    it fetches in a new epoch (KIP-595)."""
    uses_topic_ids: bool = False
    """Topics have ids, which clients see (KIP-516)."""
    allocates_producer_ids: bool = False
    """Blocks of producer ids come from the controller; else each broker takes them from the store (KIP-730)."""


OLDEST: Final = InterBrokerVersions()
"""Of 2.7-IV0 and of every older setting."""

_CHANGES: Final[tuple[tuple[tuple[int, ...], int, dict[str, int | bool]], ...]] = (
    ((2, 7), 1, {"fetch": 12, "truncates_on_fetch": True}),
    ((2, 7), 2, {"alters_isr_in_store": False}),
    (
        (2, 8),
        0,
        {
            "offset_for_leader_epoch": 4,
            "list_offsets": 6,
            "write_txn_markers": 1,
            "alter_partition_max": 3,
            "uses_topic_ids": True,
        },
    ),
    ((2, 8), 1, {"leader_and_isr": 5, "update_metadata": 7}),
    ((3, 0), 0, {"allocates_producer_ids": True}),
    ((3, 0), 1, {"list_offsets": 7}),
    ((3, 1), 0, {"fetch": 13}),
    ((3, 2), 0, {"leader_and_isr": 6}),
    ((3, 4), 0, {"leader_and_isr": 7, "update_metadata": 8, "stop_replica": 4}),
    ((3, 5), 0, {"fetch": 14, "list_offsets": 8}),
    ((3, 5), 1, {"fetch": 15}),
    ((3, 7), 4, {"fetch": 16}),
    ((3, 9), 0, {"fetch": 17, "list_offsets": 9}),
)
"""What each step of a release changed, in order."""


def versions_for(release: tuple[int, ...], step: int) -> InterBrokerVersions:
    """The versions under a setting such as 2.7-IV2, which is ((2, 7), 2)."""
    versions = OLDEST
    for since_release, since_step, changes in _CHANGES:
        if (release, step) >= (since_release, since_step):
            versions = versions._replace(**changes)  # type: ignore[arg-type]
    return versions
