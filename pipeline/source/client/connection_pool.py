"""All connections to one cluster, and asking again while the answer is "not now".

A connection is borrowed for a request, or for a whole reading, and given back. Which broker is where comes from the
last metadata; `anyone` finds a broker whatever has become of those known so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sordini.pipeline.errors import PipelineError, Refused, Unauthorized, Unreachable
from sordini.pipeline.source.client.broker_connection import Link
from sordini.pipeline.source.client.retry_timer import PASSING, Patience
from sordini.pipeline.source.client.settings import Address, ClientSettings
from sordini.pipeline.source.client.transport import Lost, Outside
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
_HANG_UPS_MAX: Final = 3
"""So often in a row a broker may hang up at the first request before that is taken for its policy."""


class Cluster:
    """Links to the brokers of one cluster, opened when they are needed."""

    def __init__(self, settings: ClientSettings, outside: Outside) -> None:
        self.settings = settings
        self.outside = outside
        self.brokers: dict[int, Address] = {}
        """Those that the last metadata named."""
        self._idle: list[Link] = []
        self._lent: list[Link] = []
        self._is_closed = False
        self._hang_ups = 0

    def close(self) -> None:
        """Hang up everywhere, borrowed or not; nothing can be asked afterwards."""
        self._is_closed = True
        for link in (*self._idle, *self._lent):
            link.close()
        self._idle.clear()

    def patience(self, ms: int | None = None) -> Patience:
        """For one stretch of attempts, by default the time of one call."""
        limits = self.settings.limits
        return Patience(self.outside, limits, limits.api_ms if ms is None else ms)

    def persist(self, attempt: Callable[[], T]) -> T:
        """The attempt's result, however often it takes. Raises what does not pass, or did not pass in time."""
        patience = self.patience()
        while True:
            try:
                return attempt()
            except (Lost, Refused) as error:
                if not passes(error):
                    raise
                if not patience.wait(error):
                    raise given_up(error, patience.seconds) from None

    @contextmanager
    def link(self, address: Address | None = None) -> Iterator[Link]:
        """A connection to one broker, or to anyone, for as long as the block lasts."""
        link = self.anyone() if address is None else self.borrow(address)
        try:
            yield link
        finally:
            self.give_back(link)

    def ask(
        self, request: Any, address: Address | None = None, *, at_least: int = 0, at_most: int | None = None
    ) -> Any:
        """One request to one broker, or to anyone."""
        with self.link(address) as link:
            first = not link.answered
            try:
                answer = link.ask(request, at_least=at_least, at_most=at_most)
            except Lost as lost:
                if first:
                    self._count_hang_up(lost)
                raise
        self._hang_ups = 0
        return answer

    def borrow(self, address: Address) -> Link:
        """A connection to this broker that nobody else uses until it is given back."""
        for link in self._idle:
            if link.address == address:
                self._idle.remove(link)
                if link.is_fresh:
                    return self._lend(link)
                link.close()
                break
        return self._lend(self._open(address))

    def anyone(self) -> Link:
        """A connection to any broker: one that is open, else to one that is known, else by the bootstrap addresses.

        Raises Lost, which tells of each address, when there is none, and Unreachable when there is only something else.
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

    def give_back(self, link: Link) -> None:
        """The end of a loan; a connection with an answer still to come is closed."""
        self._lent.remove(link)
        if not link.is_open:
            self.forget(link.address)
        elif link.in_flight:
            link.close()
        else:
            self._idle.append(link)

    def forget(self, address: Address) -> None:
        """Close what is idle there: a broker that broke one connection has broken them all."""
        for link in [link for link in self._idle if link.address == address]:
            self._idle.remove(link)
            link.close()

    def address(self, broker_id: int) -> Address:
        """Where a broker is; raises Lost when no broker has that number at the moment."""
        if broker_id not in self.brokers:
            raise Lost(f"broker {broker_id} is not there at the moment")
        return self.brokers[broker_id]

    def _open(self, address: Address) -> Link:
        if self._is_closed:
            raise Unreachable("this client is closed")
        return Link.open(address, self.settings, self.outside)

    def _lend(self, link: Link) -> Link:
        self._lent.append(link)
        return link

    def _count_hang_up(self, lost: Lost) -> None:
        """Brokers let everybody ask for versions; those that want a login hang up at whatever comes next."""
        self._hang_ups += 1
        if self._hang_ups >= _HANG_UPS_MAX and self.settings.sasl is None:
            raise Unauthorized(
                f"{lost}, each time at the first request: it may want a login (kafka.security.protocol=SASL_PLAINTEXT "
                "or SASL_SSL)"
            ) from None


def check(code: int, subject: str, reason: str | None = None) -> None:
    """Raise Unauthorized or Refused unless the code says that all is well."""
    if code == ErrorCode.NONE:
        return
    name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
    text = f"{reason} ({name})" if reason else f"{name.replace('_', ' ').lower()} ({name})"
    if code in _UNAUTHORIZED:
        raise Unauthorized(f"{subject}: {text}")
    raise Refused(subject, code, text)


def passes(error: PipelineError) -> bool:
    """Whether another attempt may do better."""
    return isinstance(error, Lost) or (isinstance(error, Refused) and error.code in PASSING)


def given_up(error: PipelineError, seconds: float) -> PipelineError:
    """The last attempt's error as the result of all of them."""
    if isinstance(error, Refused):
        return Refused(f"after {seconds:g} s", error.code, str(error))
    return Unreachable(f"{error} (tried for {seconds:g} s)")


def grouped(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Partitions by topic, as requests have them."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
