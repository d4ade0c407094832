"""The kit's own requests to its brokers, on the listener that no fault touches. Blocking; one thread uses it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Self

from sordini.client.addresses import Address
from sordini.client.blocking_link import BlockingLink
from sordini.client.connection import API_OF
from sordini.client.errors import ConnectionLost
from sordini.client.routing import metadata_request
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.metadata import MetadataResponse

PATIENCE_S: Final = 20.0
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


class KitError(Exception):
    """A request of the kit was refused, or something did not happen in time; the text says what."""


class OwnClient:
    """Connections to the brokers of a site."""

    def __init__(self, addresses: Callable[[], dict[int, tuple[str, int]]]) -> None:
        """`addresses` are those of the running brokers, by their ids."""
        self._addresses = addresses
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
        return list(self._addresses())

    def ask(self, request: Any, broker: int | None = None) -> Any:
        """The response of a broker, by default of any. Raises KitError when it cannot be reached."""
        addresses = self._addresses()
        if broker is None:
            broker = next(iter(addresses), -1)
        if broker not in addresses:
            raise KitError(f"broker {broker} does not run" if broker >= 0 else "no broker runs")
        address = Address(*addresses[broker])
        link = self._links.setdefault(address, BlockingLink(address, "sordini-testing", PATIENCE_S))
        newest = NEWEST_WITH_NAMES.get(ApiKey(API_OF[type(request)].key))
        for may_repeat in (link.is_open, False):  # A connection that was open may have been closed meanwhile.
            try:
                return link.ask(request, at_most=newest)
            except (OSError, ConnectionLost) as error:
                if not may_repeat:
                    raise KitError(f"broker {broker} at {address}: {error}") from error
        raise AssertionError

    def metadata(self, topic: str | None = None) -> MetadataResponse:
        """Of one topic, or of all."""
        response: MetadataResponse = self.ask(metadata_request(None if topic is None else [topic]))
        return response

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition. Raises KitError when there is none in time."""

        def found() -> int | None:
            row = self.metadata(topic).topics[0]
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            leaders = {one.partition_index: one.leader_id for one in row.partitions}
            return leaders.get(partition) if leaders.get(partition, -1) in self._addresses() else None

        leader: int = self.wait(found, f"partition {partition} of topic {topic!r} has a leader")
        return leader

    def coordinator(self, key: str, kind: int = 0) -> int:
        """The broker that coordinates a group (kind 0) or a transactional id (1)."""

        def found() -> int | None:
            row = self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])).coordinators[0]
            return None if row.error_code else int(row.node_id)

        broker: int = self.wait(found, f"there is a coordinator of {key!r}")
        return broker

    def wait(self, find: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
        """The first result that is not None. Raises KitError naming what was waited for."""
        end = time.monotonic() + timeout_s
        pause_s = 0.001
        while (found := find()) is None:
            if time.monotonic() > end:
                raise KitError(f"not so after {timeout_s:g} s: {what}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        return found
