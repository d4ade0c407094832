"""All connections to one cluster, and retries of what fails temporarily.

A connection is borrowed for a request, or for reading a whole range, and returned. The addresses of brokers come from
the latest metadata; `any_broker` falls back to the bootstrap addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sordini.client.addresses import Address
from sordini.pipeline.errors import PipelineError, Refused, Unauthorized, Unreachable
from sordini.pipeline.source.client.broker_connection import BrokerConnection
from sordini.pipeline.source.client.retry_timer import RETRIABLE, RetryTimer
from sordini.pipeline.source.client.settings import ClientSettings
from sordini.pipeline.source.client.transport import ClientPorts, Lost
from sordini.protocol.errors import ErrorCode

T = TypeVar("T")

_UNAUTHORIZED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)
_CLOSED_AT_ONCE_MAX: Final = 3
"""How often in a row a broker may close a connection at the first request before that is taken for its policy."""


class ConnectionPool:
    """Connections to the brokers of one cluster, opened when they are needed."""

    def __init__(self, settings: ClientSettings, ports: ClientPorts) -> None:
        self.settings = settings
        self.ports = ports
        self.brokers: dict[int, Address] = {}
        """The live brokers in the latest metadata."""
        self._idle: list[BrokerConnection] = []
        self._lent: list[BrokerConnection] = []
        self._is_closed = False
        self._closed_at_once = 0

    def close(self) -> None:
        """Close all connections, borrowed or not; no request can be sent afterwards."""
        self._is_closed = True
        for link in (*self._idle, *self._lent):
            link.close()
        self._idle.clear()

    def retry_timer(self, ms: int | None = None) -> RetryTimer:
        """For one stretch of attempts, by default the time of one call."""
        limits = self.settings.limits
        return RetryTimer(self.ports, limits, limits.api_ms if ms is None else ms)

    def retry(self, attempt: Callable[[], T]) -> T:
        """The result of the first attempt that succeeds. Raises an error that is not retriable, or the last one."""
        retry_timer = self.retry_timer()
        while True:
            try:
                return attempt()
            except (Lost, Refused) as error:
                if not is_retriable(error):
                    raise
                if not retry_timer.pause(error):
                    raise timed_out(error, retry_timer.seconds) from None

    @contextmanager
    def link(self, address: Address | None = None) -> Iterator[BrokerConnection]:
        """A connection to one broker, or to any, for as long as the block lasts."""
        link = self.any_broker() if address is None else self.borrow(address)
        try:
            yield link
        finally:
            self.give_back(link)

    def ask(
        self, request: Any, address: Address | None = None, *, at_least: int = 0, at_most: int | None = None
    ) -> Any:
        """One request to one broker, or to any."""
        with self.link(address) as link:
            first = not link.answered
            try:
                answer = link.ask(request, at_least=at_least, at_most=at_most)
            except Lost as error:
                if first:
                    self._count_closed_at_once(error)
                raise
        self._closed_at_once = 0
        return answer

    def borrow(self, address: Address) -> BrokerConnection:
        """A connection to this broker for the caller alone, until it is returned by `give_back`."""
        for link in self._idle:
            if link.address == address:
                self._idle.remove(link)
                if link.is_fresh:
                    return self._lend(link)
                link.close()
                break
        return self._lend(self._open(address))

    def any_broker(self) -> BrokerConnection:
        """A connection to any broker: one that is open, else to one that is known, else by the bootstrap addresses.

        Raises Lost, with the reason for each address, when there is none; Unreachable when no address has a broker.
        """
        while self._idle:
            link = self._idle.pop()
            if link.is_fresh:
                return self._lend(link)
            link.close()
        problems: list[Unreachable] = []
        for address in dict.fromkeys((*self.brokers.values(), *self.settings.bootstrap)):
            try:
                return self._lend(self._open(address))
            except Unreachable as error:
                problems.append(error)
        text = "; ".join(map(str, problems))
        raise Lost(text) if any(isinstance(problem, Lost) for problem in problems) else Unreachable(text)

    def give_back(self, link: BrokerConnection) -> None:
        """Return a borrowed connection; one with a request in flight is closed."""
        self._lent.remove(link)
        if not link.is_open:
            self.forget(link.address)
        elif link.in_flight:
            link.close()
        else:
            self._idle.append(link)

    def check(self, code: int, subject: str, reason: str | None = None) -> None:
        """Raise Unauthorized or Refused for a code other than NONE."""
        if code != ErrorCode.NONE:
            raise refusal(code, subject, self.settings, reason)

    def forget(self, address: Address) -> None:
        """Close the idle connections to an address: when one connection broke, the others have, too."""
        for link in [link for link in self._idle if link.address == address]:
            self._idle.remove(link)
            link.close()

    def address(self, broker_id: int) -> Address:
        """Where a broker listens; raises Lost when no live broker has this id."""
        if broker_id not in self.brokers:
            raise Lost(f"broker {broker_id} is not live at present")
        return self.brokers[broker_id]

    def _open(self, address: Address) -> BrokerConnection:
        if self._is_closed:
            raise Unreachable("this client is closed")
        return BrokerConnection.open(address, self.settings, self.ports)

    def _lend(self, link: BrokerConnection) -> BrokerConnection:
        self._lent.append(link)
        return link

    def _count_closed_at_once(self, lost: Lost) -> None:
        """Brokers serve ApiVersions without authentication; those that require it close at the next request."""
        self._closed_at_once += 1
        if self._closed_at_once >= _CLOSED_AT_ONCE_MAX and self.settings.sasl is None:
            raise Unauthorized(
                f"{lost}, each time at the first request: it may require authentication "
                "(kafka.security.protocol=SASL_PLAINTEXT or SASL_SSL)"
            ) from None


def refusal(code: int, subject: str, settings: ClientSettings, reason: str | None = None) -> Unauthorized | Refused:
    """The error for a code other than NONE; a missing right is reported with the user's name, if there is one."""
    name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
    if code in _UNAUTHORIZED and settings.sasl is not None:
        return Unauthorized(f"{subject}: user '{settings.sasl.username}' is not authorized ({name})")
    text = f"{reason} ({name})" if reason else f"{name.replace('_', ' ').lower()} ({name})"
    if code in _UNAUTHORIZED:
        return Unauthorized(f"{subject}: {text}")
    return Refused(subject, code, text)


def is_retriable(error: PipelineError) -> bool:
    """Whether another attempt may succeed."""
    return isinstance(error, Lost) or (isinstance(error, Refused) and error.code in RETRIABLE)


def timed_out(error: PipelineError, seconds: float) -> PipelineError:
    """The error of the last attempt as the result of all attempts."""
    if isinstance(error, Refused):
        return Refused(f"after {seconds:g} s", error.code, str(error))
    return Unreachable(f"{error} (tried for {seconds:g} s)")


def partitions_by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Partitions by topic, as requests have them."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
