"""Error codes of requests that fail because the coordination store is unavailable.

Where a request names more than one topic, each call to the store is made inside `store_errors()`, which refuses that
one topic. Any other failure reaches the fence (`dispatch.py`), which answers the whole request with the code of its
API. No traceback is logged: an unavailable store is the state of the cluster, not a bug.

The codes are those upon which the API's own clients and brokers retry:

    InitProducerId            COORDINATOR_LOAD_IN_PROGRESS: producers of every client retry after a pause
    FindCoordinator, groups   COORDINATOR_NOT_AVAILABLE: clients find the coordinator again
    Metadata                  LEADER_NOT_AVAILABLE: clients refresh their metadata again
    AlterPartition and others that go to the controller's queue
                              NOT_CONTROLLER: brokers and admin clients find the controller again
    all others                REQUEST_TIMED_OUT: retriable, and true: a change may have been made although its
                              response was lost. NOT_CONTROLLER would make clients repeat a creation that succeeded

One warning is logged for each API in an outage, and one line with all counts when the store is available again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.ports import CoordinationError, Logger, SessionState

GROUP_APIS: Final = (
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
CONTROLLER_APIS: Final = (
    ApiKey.ALTER_PARTITION,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
)
CODES: Final[Mapping[ApiKey, ErrorCode]] = {
    **dict.fromkeys(GROUP_APIS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    **dict.fromkeys(CONTROLLER_APIS, ErrorCode.NOT_CONTROLLER),
    ApiKey.INIT_PRODUCER_ID: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ApiKey.METADATA: ErrorCode.LEADER_NOT_AVAILABLE,
}
DEFAULT_CODE: Final = ErrorCode.REQUEST_TIMED_OUT


@contextlib.contextmanager
def store_errors() -> Iterator[None]:
    """Turn errors of the store into BrokerError REQUEST_TIMED_OUT: the change may have been made or not."""
    try:
        yield
    except CoordinationError as error:
        raise BrokerError(DEFAULT_CODE, f"not known to be done: the coordination store answered {error}") from error


class StoreErrorCodes:
    """Codes and counts of one broker's requests that failed because of the store."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._counts: Counter[str] = Counter()

    def code(self, key: ApiKey, error: CoordinationError) -> ErrorCode:
        """The code of a request that failed with this error of the store."""
        if key.name not in self._counts:
            self._log.warning("requests refused: coordination store unavailable", api=key.name, reason=str(error))
        self._counts[key.name] += 1
        return CODES.get(key, DEFAULT_CODE)

    def session_changed(self, state: SessionState) -> None:
        """An outage is over when the session is connected."""
        if state is SessionState.CONNECTED and self._counts:
            counts = ", ".join(f"{name} {count}" for name, count in sorted(self._counts.items()))
            self._log.info("coordination store available again", refused=counts)
            self._counts.clear()
