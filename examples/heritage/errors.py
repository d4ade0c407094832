"""What can go wrong. Pure."""

from __future__ import annotations

from sordini.protocol.errors import ErrorCode


class HeritageError(Exception):
    """The base of all errors of these clients; the text says what is wrong, where, and what is allowed."""


class ConfigError(HeritageError):
    """A property has a wrong value, or an argument does not fit the properties."""


class NoZooKeeper(HeritageError):
    """There is no ZooKeeper where the configuration says so."""


class BrokerUnavailable(HeritageError):
    """A broker cannot be reached, or its connection ended: whether the request was carried out is unknown."""


class RequestRefused(HeritageError):
    """A broker answered with an error code."""

    def __init__(self, subject: str, code: int) -> None:
        self.code = code
        super().__init__(f"{subject}: {ErrorCode(code).name}")


class OffsetOutOfRange(RequestRefused):
    """The requested offset is not in the log: the caller begins elsewhere, or fails."""


class MessageSizeTooLarge(HeritageError):
    """A message is larger than the largest allowed buffer."""


class ConsumerRebalanceFailed(HeritageError):
    """Others still owned this member's partitions at the last attempt."""


class ConsumerTimeout(HeritageError):
    """No message came within `consumer.timeout.ms`."""


class ZooKeeperError(Exception):
    """A call was refused, or could not be answered; the text names the path. Applications get a HeritageError."""


class ConnectionLost(ZooKeeperError):
    """The connection was lost before the answer: whether a write took effect is unknown."""


class SessionOver(ZooKeeperError):
    """The session has expired, or was closed; its ephemeral nodes are gone, or will be."""
