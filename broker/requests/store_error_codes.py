"""What a client is answered when the coordination store does not carry a call out.

Two ways lead here. Where a request names several topics, each call to the store stands in `store_errors()`, which
makes a refusal of that one topic of it. Everything else reaches the fence (`dispatch.py`), which gives the whole
request the code of its API. No traceback is written: that the store is away is the state of the cluster, not a bug.

Codes are those upon which the API's own clients and brokers repeat the request:

    InitProducerId            COORDINATOR_LOAD_IN_PROGRESS: producers of every client ask again after a pause
    FindCoordinator, groups   COORDINATOR_NOT_AVAILABLE: clients look for the coordinator again
    Metadata                  LEADER_NOT_AVAILABLE: clients refresh their metadata again
    AlterPartition and others that go to the controller's queue
                              NOT_CONTROLLER: brokers and administration clients look for the controller again
    all others                REQUEST_TIMED_OUT: retriable, and true: a change whose answer was lost may have been made.
                              NOT_CONTROLLER would have clients repeat a creation that has succeeded

One warning is written for each API in an outage, and one line with all counts when the store answers again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from sordini.broker.network.ports import Log
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.ports import CoordinationError, SessionState

OF_GROUPS: Final = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_GROUPS,
)
OF_THE_CONTROLLER: Final = (
    ApiKey.ALTER_PARTITION,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
)
CODES: Final[Mapping[ApiKey, ErrorCode]] = {
    **dict.fromkeys(OF_GROUPS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    **dict.fromkeys(OF_THE_CONTROLLER, ErrorCode.NOT_CONTROLLER),
    ApiKey.INIT_PRODUCER_ID: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ApiKey.METADATA: ErrorCode.LEADER_NOT_AVAILABLE,
}
OTHERWISE: Final = ErrorCode.REQUEST_TIMED_OUT


@contextlib.contextmanager
def store_errors() -> Iterator[None]:
    """Raise BrokerError REQUEST_TIMED_OUT for what the store raises: the change may have been made or not."""
    try:
        yield
    except CoordinationError as error:
        raise BrokerError(OTHERWISE, f"not known to be done: the coordination store answered {error}") from error


class StoreRefusals:
    """The requests of one broker that the fence refused because of the store."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._counts: Counter[str] = Counter()

    def code(self, key: ApiKey, error: CoordinationError) -> ErrorCode:
        """The code of a request that failed by this error of the store."""
        if key.name not in self._counts:
            self._log.warning("requests refused for want of the coordination store", api=key.name, reason=str(error))
        self._counts[key.name] += 1
        return CODES.get(key, OTHERWISE)

    def session_changed(self, state: SessionState) -> None:
        """An outage is over when the session is connected."""
        if state is SessionState.CONNECTED and self._counts:
            counts = ", ".join(f"{name} {count}" for name, count in sorted(self._counts.items()))
            self._log.info("requests are no longer refused for want of the coordination store", refused=counts)
            self._counts.clear()
