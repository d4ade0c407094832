"""A whole cluster as the commands see it: whom to ask for what, and asking again when the answer is "not now".

    async with ClusterClient(addresses) as cluster:
        links = await cluster.leaders(partitions)
        answer = await cluster.retry(lambda: ...)

`persist` repeats an attempt while the cluster answers with an error that passes (a leader that moves, a coordinator
that loads) or a connection breaks; who leads and coordinates is asked anew each time. It has no limit of its own: the
caller bounds the whole command, and `problem` says what it was waiting for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sordini.cli.broker_connection import Address, BrokerConnection, Disconnected, Refused, Unreachable
from sordini.cli.common.options import Failure
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from sordini.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from sordini.protocol.types import TopicPartition

T = TypeVar("T")

RETRIABLE: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.STALE_BROKER_EPOCH,
    }
)
"""Errors after which the same request may succeed."""

_PAUSE_FIRST_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 1.0


def check(subject: str, code: int, reason: str | None = None) -> None:
    """Raise Refused unless the code says that all is well."""
    if code != ErrorCode.NONE:
        raise Refused(subject, code, reason)


def error_text(subject: str, code: int, reason: str | None = None) -> str | None:
    """What `check` would raise, in words, for one of several that are reported together; None when all is well."""
    return None if code == ErrorCode.NONE else str(Refused(subject, code, reason))


class RetriableRefusal(Refused):
    """The cluster answered with an error that says otherwise, and yet the same request may succeed later."""


class ClusterClient:
    """Links to the brokers of one cluster, opened when they are needed."""

    def __init__(self, bootstrap: list[Address]) -> None:
        self._bootstrap = bootstrap
        self._links: dict[Address, BrokerConnection] = {}
        self._brokers: dict[int, Address] = {}
        self.problem: str | None = None
        """The last error that made `persist` try again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for link in self._links.values():
            await link.closed()

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The attempt's result, however often it takes. Raises the Failure that will not pass by itself."""
        pause = _PAUSE_FIRST_SECONDS
        while True:
            try:
                return await attempt()
            except Refused as refused:
                if refused.code not in RETRIABLE and not isinstance(refused, RetriableRefusal):
                    raise
                self.problem = str(refused)
            except Disconnected as lost:
                self.problem = str(lost)
                self._hang_up()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

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
        """The broker with that number."""
        if broker_id not in self._brokers:
            await self.metadata([])
        address = self._brokers.get(broker_id)
        if address is None:
            known = ", ".join(map(str, sorted(self._brokers)))
            raise Failure(f"there is no broker {broker_id} (these run: {known})")
        return await self._known(address)

    async def brokers(self) -> dict[int, BrokerConnection]:
        """Every broker that runs."""
        await self.metadata([])
        return {broker_id: await self._known(address) for broker_id, address in sorted(self._brokers.items())}

    async def controller(self) -> BrokerConnection:
        """The broker that changes topics."""
        found = await self.metadata([])
        if found.controller_id not in self._brokers:
            raise Refused("the controller", ErrorCode.NOT_CONTROLLER, "none is elected at the moment")
        return await self.broker(found.controller_id)

    async def coordinator(self, group: str) -> BrokerConnection:
        """The broker that looks after a group."""
        link = await self.any_broker()
        answer: FindCoordinatorResponse = await link.ask(FindCoordinatorRequest(key=group, coordinator_keys=[group]))
        # Up to version 3 the answer is about the one key, from 4 on it is a list.
        found: Any = answer.coordinators[0] if answer.coordinators else answer
        check(f"the coordinator of group '{group}'", found.error_code, found.error_message)
        return await self._known(Address(found.host, found.port))

    async def metadata(self, topics: Iterable[str] | None, link: BrokerConnection | None = None) -> MetadataResponse:
        """The cluster and some topics (None: all) as one broker knows them, or any; asking creates none."""
        link = await self.any_broker() if link is None else link
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = await link.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False))
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        return answer

    async def topics(self, names: Iterable[str]) -> list[MetadataResponseTopic]:
        """Topics that must exist, in the order they are asked for; raises Refused for the first that does not."""
        wanted = list(dict.fromkeys(names))
        found = {topic.name: topic for topic in (await self.metadata(wanted)).topics}
        for name in wanted:
            if name not in found:
                raise Failure(f"the broker's answer says nothing of topic '{name}'")
            check_topic(name, found[name].error_code)
        return [found[name] for name in wanted]

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Which broker leads which of the partitions; all must exist and have one."""
        wanted = list(partitions)
        topics = {topic.name: topic for topic in await self.topics(topic for topic, _ in wanted)}
        led: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            rows = {row.partition_index: row for row in topics[partition.topic].partitions}
            row = rows.get(partition.partition)
            if row is None:
                raise Failure(
                    f"topic '{partition.topic}' has no partition {partition.partition} (it has {len(rows)}, from 0 on)"
                )
            if row.leader_id < 0:
                raise Refused(f"partition {partition}", ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads it at the moment")
            led.setdefault(row.leader_id, []).append(partition)
        return led

    def forget(self, broker_id: int) -> None:
        """Hang up on a broker that did not answer: the next question to it opens a connection anew."""
        address = self._brokers.pop(broker_id, None)
        link = None if address is None else self._links.pop(address, None)
        if link is not None:
            link.close()

    async def _known(self, address: Address) -> BrokerConnection:
        """A broker that the cluster names: when it cannot be reached, the cluster may soon name another."""
        try:
            return await self._link(address)
        except Unreachable as error:
            raise Disconnected(str(error)) from None

    async def _link(self, address: Address) -> BrokerConnection:
        if address not in self._links:
            self._links[address] = await BrokerConnection.open(address)
        return self._links[address]

    def _hang_up(self) -> None:
        """Forget every connection: some are broken, and the next metadata tells who is there."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._brokers.clear()


def only_row(rows: Sequence[T], subject: str) -> T:
    """The one row that an answer about one thing has. Raises Failure for any other number."""
    if len(rows) != 1:
        raise Failure(f"the broker's answer has {len(rows)} rows for {subject} instead of one")
    return rows[0]


def check_topic(name: str, code: int, reason: str | None = None) -> None:
    """Raise Refused for a topic with which something is wrong, and say what to do when it is not there."""
    if code != ErrorCode.NONE:
        raise Refused(f"topic '{name}'", code, topic_advice(code) or reason)


def topic_advice(code: int) -> str | None:
    """What to do about a topic that is not there."""
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    return "there is no such topic; `sordini topics list` shows those there are"
