"""The kit's own requests to its brokers, on the listener that no fault touches. Blocking; one thread uses it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Self

from sordini.client.addresses import Address
from sordini.client.blocking_link import BlockingLink
from sordini.client.connection import API_OF
from sordini.client.errors import ClientError, Unreachable
from sordini.client.routing import metadata_request
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.testing.cluster import BrokerState

PATIENCE_S: Final = 20.0
SOON_S: Final = 2.0
"""So long a condition that only the test can end, as a paused broker, is given the time of an election."""
NEWEST_WITH_NAMES: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DELETE_TOPICS: 5,
}
"""Later versions name topics by their ids."""
TEMPORARY: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class KitError(ClientError):
    """A request of the kit was refused, or something did not happen in time; the text says what."""


class NotInTime(KitError):
    """What was waited for did not happen."""


class Prevented(KitError):
    """It cannot be until the test does something: a broker is paused, or a partition does not exist."""


class OwnClient:
    """Connections to the brokers of a site."""

    def __init__(self, states: Callable[[], list[BrokerState]]) -> None:
        """`states` are those of all brokers."""
        self._states = states
        self._links: dict[Address, BlockingLink] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    @property
    def brokers(self) -> list[int]:
        """The ids of those that run."""
        return list(self._running())

    def ask(self, request: Any, broker: int | None = None) -> Any:
        """The response of a broker, by default of any. Raises KitError when it cannot be reached, Prevented when it
        is paused.
        """
        running = self._running()
        if broker is None:
            broker = next(iter(running), -1)
        if broker not in running:
            raise KitError(f"broker {broker} does not run" if broker >= 0 else "no broker runs")
        if running[broker].is_paused:
            raise Prevented(f"broker {broker} is paused, and answers nothing until `resume`")
        address = Address(*running[broker].brokers)
        link = self._links.setdefault(address, BlockingLink(address, "sordini-testing", PATIENCE_S))
        newest = NEWEST_WITH_NAMES.get(ApiKey(API_OF[type(request)].key))
        for may_repeat in (link.is_open, False):  # A connection that was open may have been closed meanwhile.
            try:
                return link.ask(request, at_most=newest)
            except Unreachable as error:
                if not may_repeat:
                    paused = ", ".join(str(number) for number, state in running.items() if state.is_paused)
                    why = f" (paused is broker {paused})" if paused else ""
                    raise KitError(f"broker {broker}: {error}{why}") from error
        raise AssertionError

    def metadata(self, topic: str | None = None) -> MetadataResponse:
        """Of one topic, or of all."""
        response: MetadataResponse = self.ask(metadata_request(None if topic is None else [topic]))
        return response

    def leader(self, topic: str, partition: int, soon_s: float = SOON_S) -> int:
        """The broker that leads a partition. Raises KitError when there is none in time, and Prevented with the reason
        when there is none after `soon_s` because of what the test did.
        """

        def found() -> int | None:
            row = self.metadata(topic).topics[0]
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Prevented(f"there is no topic {topic!r}")
            one = next((one for one in row.partitions if one.partition_index == partition), None)
            if one is None:
                raise Prevented(f"topic {topic!r} has no partition {partition}: it has {len(row.partitions)}")
            return self._serving(one, topic)

        leader: int = self.wait(found, f"partition {partition} of topic {topic!r} has a leader", soon_s=soon_s)
        return leader

    def _serving(self, row: Any, topic: str) -> int | None:
        """The leader of a partition's row, None while another one may be elected. Raises Prevented."""
        running = self._running()
        able = {number for number, state in running.items() if not state.is_paused}
        leader: int = row.leader_id
        if leader in able:
            return leader
        if able.intersection(row.isr_nodes) and not (leader in running and running[leader].is_paused):
            return None
        states = [
            f"broker {number} {'runs' if number in able else 'is paused' if number in running else 'does not run'}"
            for number in row.replica_nodes
        ]
        raise Prevented(
            f"partition {row.partition_index} of topic {topic!r} has no leader that answers: {', '.join(states)}"
        )

    def _running(self) -> dict[int, BrokerState]:
        """Those that run, by their ids; the first one is sent what any broker can answer.

        A paused one would not, and one that is cut off knows less.
        """
        running = [state for state in self._states() if state.is_running]
        return {
            state.id: state for state in sorted(running, key=lambda broker: (broker.is_paused, len(broker.cut_from)))
        }

    def coordinator(self, key: str, kind: int = 0) -> int:
        """The broker that coordinates a group (kind 0) or a transactional id (1)."""

        def found() -> int | None:
            row = self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators[0]
            return None if row.error_code else int(row.node_id)

        broker: int = self.wait(found, f"there is a coordinator of {key!r}")
        return broker

    def wait(
        self, find: Callable[[], Any], awaited: str, timeout_s: float = PATIENCE_S, *, soon_s: float = SOON_S
    ) -> Any:
        """The first result that is not None. Raises KitError naming what was waited for, and Prevented of `find` when
        it is still so after `soon_s`.
        """
        began = time.monotonic()
        pause_s = 0.001
        while (found := self._attempt(find, began + soon_s)) is None:
            if time.monotonic() > began + timeout_s:
                raise NotInTime(f"not so after {timeout_s:g} s: {awaited}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        return found

    @staticmethod
    def _attempt(find: Callable[[], Any], end: float) -> Any:
        try:
            return find()
        except Prevented:
            if time.monotonic() > end:
                raise
            return None
