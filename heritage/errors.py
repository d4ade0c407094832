"""What can go wrong, each with a sentence that names the thing and says what is allowed or to be done."""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode


class HeritageError(Exception):
    """The base of all errors of these clients."""


class ConfigError(HeritageError):
    """A property has a wrong value, or an object does not fit the properties."""


class BrokerUnavailable(HeritageError):
    """A broker cannot be reached, or its connection ended: whether the request was carried out is unknown."""


class RequestRefused(HeritageError):
    """A broker answered with an error code."""

    def __init__(self, what: str, code: int) -> None:
        self.code = code
        name = ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error code {code}"
        super().__init__(f"{what}: {name}")


class OffsetOutOfRange(RequestRefused):
    """The requested offset is not in the log: the caller begins elsewhere, or fails."""


def refusal(what: str, code: int) -> RequestRefused | None:
    """The error for an error code; None for none."""
    kind = OffsetOutOfRange if code == ErrorCode.OFFSET_OUT_OF_RANGE else RequestRefused
    return kind(what, code) if code else None


class MessageSizeTooLarge(HeritageError):
    """A message is larger than the largest allowed buffer."""


class NoZooKeeper(HeritageError):
    """There is no ZooKeeper where the configuration says so."""


class ConsumerRebalanceFailed(HeritageError):
    """The partitions of this member were still owned by others after the last attempt."""


class ConsumerTimeout(HeritageError):
    """No message came within `consumer.timeout.ms`."""


class QueueFull(HeritageError):
    """The queue of the asynchronous producer had no room within `queue.enqueue.timeout.ms`."""
