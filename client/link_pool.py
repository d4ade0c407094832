"""Links to the brokers of one cluster for a thread, and attempts that are repeated: the blocking shell of a client.

    pool = LinkPool(Access(bootstrap, "my-client", answer_s=30), ports, RetryRules(budget_s=60))
    response = pool.retry(lambda: pool.ask(MetadataRequest()))

A link is borrowed for a request, or for a whole stream of them, and returned. The addresses of brokers come from the
latest metadata. How the parts fit together is in `cluster_core`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sordini.client.addresses import Address
from sordini.client.blocking_link import BlockingPorts, OpenLink
from sordini.client.cluster_core import Access, ClusterMap, no_broker
from sordini.client.errors import ClientError, Refused, Unreachable, with_text
from sordini.client.retries import Attempts, RetryRules

T = TypeVar("T")


class RetryTimer:
    """One stretch of attempts without success: pauses before the next one, until the time is over."""

    def __init__(self, rules: RetryRules, ports: BlockingPorts) -> None:
        self._rules = rules
        self._ports = ports
        self._attempts = Attempts(rules, ports.monotonic())
        self.problem = "nothing was answered"
        """What the last attempt failed with."""

    def restart(self) -> None:
        """After a success: the whole time is available again."""
        self._attempts.restart(self._ports.monotonic())

    @property
    def seconds(self) -> float:
        return self._rules.budget_s

    @property
    def is_expired(self) -> bool:
        return self._attempts.is_expired(self._ports.monotonic())

    def pause(self, error: ClientError) -> None:
        """Note what went wrong and pause. Raises the error when it is not temporary, or there is no time left."""
        if not self._rules.is_temporary(error):
            raise error
        self.problem = str(error)
        pause_s = self._attempts.pause_s(self._ports.monotonic())
        if pause_s is None:
            before = isinstance(error, Refused)
            text = f"after {self.seconds:g} s: {error}" if before else f"{error} (tried for {self.seconds:g} s)"
            raise with_text(error, text) from None
        self._ports.sleep(pause_s)


class LinkPool:
    """Connections to the brokers of one cluster, opened when they are needed. Methods raise ClientError."""

    def __init__(self, access: Access, ports: BlockingPorts, rules: RetryRules) -> None:
        self.ports = ports
        self.cluster_map = ClusterMap(access.bootstrap)
        self._access = access
        self._rules = rules
        self._idle: list[OpenLink] = []
        self._lent: list[OpenLink] = []
        self._is_closed = False

    def close(self) -> None:
        """Close all connections, borrowed or not; no request can be sent afterwards."""
        self._is_closed = True
        for link in (*self._idle, *self._lent):
            link.close()
        self._idle.clear()

    def retry_timer(self) -> RetryTimer:
        """For one stretch of attempts."""
        return RetryTimer(self._rules, self.ports)

    def retry(self, attempt: Callable[[], T]) -> T:
        """The result of the first attempt that succeeds. Raises an error that is not temporary, or the last one."""
        timer = self.retry_timer()
        while True:
            try:
                return attempt()
            except ClientError as error:
                timer.pause(error)

    @contextmanager
    def link(self, address: Address | None = None) -> Iterator[OpenLink]:
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
            return link.ask(request, at_least=at_least, at_most=at_most)

    def borrow(self, address: Address) -> OpenLink:
        """A connection to this broker for the caller alone, until it is returned by `give_back`."""
        for link in self._idle:
            if link.address == address:
                self._idle.remove(link)
                if link.is_fresh:
                    return self._lend(link)
                link.close()
                break
        return self._lend(self._open(address))

    def any_broker(self) -> OpenLink:
        """A connection to any broker: one that is open, else to one that is known, else by the bootstrap addresses."""
        while self._idle:
            link = self._idle.pop()
            if link.is_fresh:
                return self._lend(link)
            link.close()
        problems: list[Unreachable] = []
        for address in self.cluster_map.candidates():
            try:
                return self._lend(self._open(address))
            except Unreachable as error:
                problems.append(error)
        raise no_broker(problems)

    def give_back(self, link: OpenLink) -> None:
        """Return a borrowed connection; one with a request in flight is closed."""
        self._lent.remove(link)
        if not link.is_open:
            self.forget(link.address)
        elif link.in_flight:
            link.close()
        else:
            self._idle.append(link)

    def forget(self, address: Address) -> None:
        """Close the idle connections to an address: when one connection broke, the others have, too."""
        for link in [link for link in self._idle if link.address == address]:
            self._idle.remove(link)
            link.close()

    def address(self, broker_id: int) -> Address:
        """Where a broker listens; raises Unreachable when no live broker has this id."""
        if broker_id not in self.cluster_map.addresses:
            raise Unreachable(f"broker {broker_id} is not live at present")
        return self.cluster_map.addresses[broker_id]

    def _open(self, address: Address) -> OpenLink:
        if self._is_closed:
            raise ClientError("this client is closed")
        return OpenLink.open(address, self._access, self.ports)

    def _lend(self, link: OpenLink) -> OpenLink:
        self._lent.append(link)
        return link
