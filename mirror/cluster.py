"""One cluster as a mirror reaches it: connections to its brokers, and which of them a request goes to.

    async with Cluster(access) as cluster:
        found = await cluster.metadata(None)
        link = await cluster.broker(cluster.leader_of(TopicPartition("orders", 0)))
        response = await link.ask(request)

Nothing is retried here but what `retry` repeats: a coordinator that loads or moves.
"""

from __future__ import annotations

from typing import Final

from sordini.client import cluster, retries
from sordini.client.cluster import Link
from sordini.client.cluster_core import Access as ClientAccess
from sordini.client.errors import Unreachable
from sordini.mirror.plan import Access
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition

CLIENT_ID: Final = "sordini-mirror"
RESPONSE_BYTES_MAX: Final = 1024 * 1024 * 1024
ANSWER_S_MAX: Final = 40.0
"""For any response; requests name shorter times to the broker."""
RULES: Final = retries.RetryRules(
    retries.RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_CONTROLLER},
    errors=(),  # A broken connection ends the attempt of the whole flow.
    pause_ms=5,
    pause_ms_max=500,
    budget_s=60.0,
)
"""What passes when the same request is sent again, to a broker that is looked up again."""


class Cluster(cluster.Cluster):
    """The connections to one cluster, one for each broker and purpose."""

    def __init__(self, access: Access) -> None:
        self.access = access
        reached = ClientAccess(
            access.bootstrap,
            CLIENT_ID,
            access.credentials,
            access.alias,
            answer_s=ANSWER_S_MAX,
            response_bytes_max=RESPONSE_BYTES_MAX,
        )
        super().__init__(reached, access.connect, RULES)

    async def broker_ids(self) -> list[int]:
        """The live brokers."""
        await self.metadata([])
        return sorted(self.cluster_map.addresses)

    def leader_of(self, partition: TopicPartition) -> int:
        """The id of a partition's leader as of the last metadata; -1 while there is none."""
        return self.cluster_map.leader(partition).broker_id

    async def broker(self, broker_id: int, purpose: str = "") -> Link:
        """The connection to a broker for a purpose; a response that is waited for holds up others of its purpose."""
        address = self.cluster_map.addresses.get(broker_id)
        if address is None:
            raise Unreachable(f"cluster '{self.access.alias}' has no broker {broker_id} at present")
        return await self.link(address, purpose)

    async def controller(self) -> Link:
        """The active controller; in a cluster that hides it, any broker, which passes requests on."""
        controller_id = (await self.metadata([])).controller_id
        is_known = controller_id in self.cluster_map.addresses
        return await self.broker(controller_id) if is_known else await self.any_broker()
