"""Which versions of requests brokers send one another, by the setting `inter.broker.protocol.version`.

The sender's setting decides and nothing is negotiated: a receiver that does not know the version breaks the
connection, and the sender repeats itself for ever. So all brokers of a cluster run with one setting, and with one
that the oldest of them knows. The two exceptions ask ApiVersions first and take the newest version that both know,
up to what is said here: AlterPartition and AllocateProducerIds.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class InterBrokerVersions(NamedTuple):
    """One setting's versions, and what brokers do differently from one setting to the next."""

    leader_and_isr: int = 4
    update_metadata: int = 6
    stop_replica: int = 3
    controlled_shutdown: int = 3
    fetch: int = 11
    """A request with a partition whose topic has no id goes out in 12 at most (KIP-516)."""
    offset_for_leader_epoch: int = 3
    list_offsets: int = 5
    write_txn_markers: int = 0
    alter_partition_max: int = 1
    """Without topic ids there is nothing above 1."""
    alters_isr_in_store: bool = True
    """A leader writes its in-sync set to the coordination store itself, and says so by a notification node; else it
    asks the controller (KIP-497)."""
    truncates_on_fetch: bool = False
    """A follower learns from the answer to Fetch where its log diverges; else it asks OffsetForLeaderEpoch before it
    fetches in a new epoch (KIP-595)."""
    uses_topic_ids: bool = False
    """Topics have ids, which clients are told (KIP-516)."""
    allocates_producer_ids: bool = False
    """Blocks of producer ids come from the controller; else each broker takes them from the store (KIP-730)."""


OLDEST: Final = InterBrokerVersions()
"""Those of 2.7-IV0 and, for want of anything older, of every setting below."""

_NEWS: Final[tuple[tuple[tuple[int, ...], int, dict[str, int | bool]], ...]] = (
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
    for since_release, since_step, news in _NEWS:
        if (release, step) >= (since_release, since_step):
            versions = versions._replace(**news)  # type: ignore[arg-type]
    return versions
