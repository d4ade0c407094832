"""A whole cluster as the commands see it: which broker a request goes to, and retries while an error is temporary.

    async with ClusterClient(addresses) as cluster:
        leaders = await cluster.leaders(partitions)
        result = await cluster.retry(lambda: ...)

`retry` repeats an attempt while the cluster answers with a retriable error (a leader that moves, a coordinator that
loads) or a connection breaks; leaders and coordinators are looked up again each time. It has no limit of its own: the
caller bounds the whole command, and `problem` is the error that the last attempt failed with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from sordini.cli.broker_connection import BrokerConnection, Disconnected, Refused, Unreachable
from sordini.cli.common.options import Failure
from sordini.client import retries, routing
from sordini.client.addresses import Address
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from sordini.protocol.types import TopicPartition

T = TypeVar("T")

RETRIABLE: Final = retries.RETRIABLE | {ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH}
"""Errors after which the same request may succeed."""

_PAUSE_MS_FIRST: Final = 100
_PAUSE_MS_MAX: Final = 1_000


def check(subject: str, code: int, reason: str | None = None) -> None:
    """Raise Refused for a code other than NONE."""
    if code != ErrorCode.NONE:
        raise Refused(subject, code, reason)


def error_text(subject: str, code: int, reason: str | None = None) -> str | None:
    """The text of what `check` would raise, for results that are reported together; None for no error."""
    return None if code == ErrorCode.NONE else str(Refused(subject, code, reason))


class RetriableRefusal(Refused):
    """The cluster answered with an error that is not retriable in general, and the same request may succeed later."""


class ClusterClient:
    """Connections to the brokers of one cluster, opened when they are needed."""

    def __init__(self, bootstrap: list[Address]) -> None:
        self._bootstrap = bootstrap
        self._links: dict[Address, BrokerConnection] = {}
        self._brokers: dict[int, Address] = {}
        self.problem: str | None = None
        """The last error after which `retry` tried again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for link in self._links.values():
            link.close()

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of the first attempt that succeeds. Raises a Failure that is not retriable."""
        backoff = retries.Backoff(_PAUSE_MS_FIRST, _PAUSE_MS_MAX)
        while True:
            try:
                return await attempt()
            except Refused as refused:
                if refused.code not in RETRIABLE and not isinstance(refused, RetriableRefusal):
                    raise
                self.problem = str(refused)
            except Disconnected as lost:
                self.problem = str(lost)
                self._close_all()
            await asyncio.sleep(backoff.next_ms() / 1000)

    async def any_broker(self) -> BrokerConnection:
        """Any broker; raises Unreachable when no bootstrap address has one."""
        for link in self._links.values():
            return link
        problems = []
        for address in self._bootstrap:
            try:
                return await self._link(address)
            except Unreachable as error:
                problems.append(str(error))
        raise Unreachable(f"{'; '.join(problems)} — is a broker running there? (sordini serve)")

    async def broker(self, broker_id: int) -> BrokerConnection:
        """The broker with this id."""
        if broker_id not in self._brokers:
            await self.metadata([])
        address = self._brokers.get(broker_id)
        if address is None:
            known = ", ".join(map(str, sorted(self._brokers)))
            raise Failure(f"there is no broker {broker_id} (these run: {known})")
        return await self._known(address)

    async def brokers(self) -> dict[int, BrokerConnection]:
        """Every live broker."""
        await self.metadata([])
        return {broker_id: await self._known(address) for broker_id, address in sorted(self._brokers.items())}

    async def controller(self) -> BrokerConnection:
        """The active controller."""
        found = await self.metadata([])
        if found.controller_id not in self._brokers:
            raise Refused("the controller", ErrorCode.NOT_CONTROLLER, "none is elected at the moment")
        return await self.broker(found.controller_id)

    async def coordinator(self, group: str) -> BrokerConnection:
        """The coordinator of a consumer group."""
        link = await self.any_broker()
        found = routing.coordinator_in(await link.ask(routing.coordinator_request(group)))
        check(f"the coordinator of group '{group}'", found.error_code, found.error_message)
        return await self._known(found.address)

    async def transaction_coordinator(self, transactional_id: str) -> BrokerConnection:
        """The coordinator of a transactional id."""
        link = await self.any_broker()
        request = routing.transaction_coordinator_request(transactional_id)
        found = routing.coordinator_in(await link.ask(request))
        check(f"the coordinator of transactional id '{transactional_id}'", found.error_code, found.error_message)
        return await self._known(found.address)

    async def metadata(
        self, topics: Iterable[str] | None, link: BrokerConnection | None = None, *, creates: bool = False
    ) -> MetadataResponse:
        """The cluster and some topics (None: all) as one broker knows them, or any; `creates` lets it create them."""
        link = await self.any_broker() if link is None else link
        response: MetadataResponse = await link.ask(routing.metadata_request(topics, creates=creates))
        self._brokers = routing.broker_addresses(response)
        return response

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

    def forget(self, broker_id: int) -> None:
        """Close the connection to a broker that did not answer: the next request to it opens a new one."""
        address = self._brokers.pop(broker_id, None)
        link = None if address is None else self._links.pop(address, None)
        if link is not None:
            link.close()

    async def _known(self, address: Address) -> BrokerConnection:
        """A broker in the metadata: when it cannot be reached, the metadata may soon name another."""
        try:
            return await self._link(address)
        except Unreachable as error:
            raise Disconnected(str(error)) from None

    async def _link(self, address: Address) -> BrokerConnection:
        if address not in self._links:
            self._links[address] = await BrokerConnection.open(address)
        return self._links[address]

    def _close_all(self) -> None:
        """Close every connection: some are broken, and the next metadata names the live brokers."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._brokers.clear()


def only_row(rows: Sequence[T], subject: str) -> T:
    """The row of a response that must have exactly one. Raises Failure for any other number."""
    if len(rows) != 1:
        raise Failure(f"the broker's answer has {len(rows)} rows for {subject} instead of one")
    return rows[0]


def check_topic(name: str, code: int, reason: str | None = None) -> None:
    """Raise Refused for a topic's error code, with advice for a topic that does not exist."""
    if code != ErrorCode.NONE:
        raise Refused(f"topic '{name}'", code, topic_advice(code) or reason)


def topic_advice(code: int) -> str | None:
    """What to do about a topic that does not exist."""
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    return "there is no such topic; `sordini topics list` shows those there are"
