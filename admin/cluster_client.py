"""A whole cluster as its administration sees it: which broker a request goes to, and retries of what is temporary.

    async with ClusterClient(access, connect) as cluster:
        leaders = await cluster.leaders(partitions)
        result = await cluster.retry(lambda: ...)

`retry` repeats an attempt while the cluster answers with a retriable error (a leader that moves, a coordinator that
loads) or a connection breaks; leaders and coordinators are looked up again each time. It has no limit of its own: the
caller bounds the whole of it, and `problem` is the error that the last attempt failed with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.admin.failure import Failure
from sordini.client import retries, routing
from sordini.client.cluster import Cluster, Connect, Link
from sordini.client.cluster_core import Access
from sordini.client.errors import Disconnected, Refused
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import MetadataResponseTopic
from sordini.protocol.types import TopicPartition

RETRIABLE: Final = retries.RETRIABLE | {ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH}
"""Errors after which the same request may succeed."""


class RetriableRefusal(Refused):
    """The cluster answered with an error that is not retriable in general, and the same request may succeed later."""


RULES: Final = retries.RetryRules(RETRIABLE, (Disconnected, RetriableRefusal))


class ClusterClient(Cluster):
    """Connections to the brokers of one cluster, opened when they are needed."""

    def __init__(self, access: Access, connect: Connect) -> None:
        super().__init__(access, connect, RULES)

    def no_broker_text(self, problems: str) -> str:
        return f"{problems} — is a broker running there? (sordini serve)"

    async def broker(self, broker_id: int) -> Link:
        """The broker with this id."""
        if broker_id not in self.cluster_map.addresses:
            await self.metadata([])
        address = self.cluster_map.addresses.get(broker_id)
        if address is None:
            known = ", ".join(map(str, sorted(self.cluster_map.addresses)))
            raise Failure(f"there is no broker {broker_id} (these run: {known})")
        return await self.known(address)

    async def brokers(self) -> dict[int, Link]:
        """Every live broker."""
        await self.metadata([])
        live = sorted(self.cluster_map.addresses.items())
        return {broker_id: await self.known(address) for broker_id, address in live}

    async def controller(self) -> Link:
        """The active controller."""
        found = await self.metadata([])
        if found.controller_id not in self.cluster_map.addresses:
            raise Refused("the controller", ErrorCode.NOT_CONTROLLER, "none is elected at the moment")
        return await self.broker(found.controller_id)

    def forget(self, broker_id: int) -> None:
        """A broker did not answer: its address is requested again before the next request to it."""
        self.cluster_map.addresses.pop(broker_id, None)

    async def topics(self, names: Iterable[str]) -> list[MetadataResponseTopic]:
        """Topics that must exist, in the order of the names; raises Refused for the first that does not."""
        wanted = list(dict.fromkeys(names))
        found = {topic.name: topic for topic in (await self.metadata(wanted)).topics}
        for name in wanted:
            if name not in found:
                raise Failure(f"the broker's answer says nothing of topic '{name}'")
            check_topic(name, found[name].error_code)
        return [found[name] for name in wanted]

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by the broker that leads them; all must exist and have a leader."""
        wanted = list(partitions)
        topics = {topic.name: topic for topic in await self.topics(topic for topic, _ in wanted)}
        led: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            leaders = routing.partition_leaders(topics[partition.topic])
            leader = leaders.get(partition.partition)
            if leader is None:
                count = len(leaders)
                raise Failure(
                    f"topic '{partition.topic}' has no partition {partition.partition} (it has {count}, from 0 on)"
                )
            if leader.broker_id < 0:
                raise Refused(f"partition {partition}", ErrorCode.LEADER_NOT_AVAILABLE, "it has no leader at present")
            led.setdefault(leader.broker_id, []).append(partition)
        return led


def error_text(subject: str, code: int, reason: str | None = None) -> str | None:
    """The text of what `check` would raise, for results that are reported together; None for no error."""
    return None if code == ErrorCode.NONE else str(Refused(subject, code, reason))


def check_topic(name: str, code: int, reason: str | None = None) -> None:
    """Raise Refused for a topic's error code, with advice for a topic that does not exist."""
    if code != ErrorCode.NONE:
        raise Refused(f"topic '{name}'", code, topic_advice(code) or reason)


def topic_advice(code: int) -> str | None:
    """What to do about a topic that does not exist."""
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    return "there is no such topic; `sordini topics list` shows those there are"
