"""The client's pool of connections with the names of Spark's options in its errors, and what it takes for temporary."""

from __future__ import annotations

from typing import Any, Final

from sordini.client import retries
from sordini.client.addresses import Address
from sordini.client.blocking_link import BlockingPorts, OpenLink
from sordini.client.cluster_core import Access, Login
from sordini.client.errors import Disconnected, Refused, Unauthorized, Unreachable
from sordini.client.link_pool import LinkPool
from sordini.pipeline.source.client.settings import ClientSettings
from sordini.pipeline.source.client.tokens import TokenSource
from sordini.pipeline.source.client.transport import ClientPorts, explain
from sordini.protocol.errors import ErrorCode

RESPONSE_BYTES_MAX: Final = 512 * 1024 * 1024
RETRIABLE: Final = retries.RETRIABLE | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors after which the same request may succeed, once the metadata is refreshed.

An unknown topic is among them: a broker that has just started does not know all topics, and a topic that was just
created is not known to all brokers. `Topics` decides when a topic has been unknown for too long.
"""
_UNAUTHORIZED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_CLOSED_AT_ONCE_MAX: Final = 3
"""How often in a row a broker may close a connection at the first request before that is taken for its policy."""


class ConnectionPool(LinkPool):
    """Connections to the brokers of one cluster, opened when they are needed."""

    def __init__(self, settings: ClientSettings, ports: ClientPorts) -> None:
        limits = settings.limits
        access = Access(
            settings.bootstrap,
            settings.client_id,
            _login(settings),
            answer_s=limits.request_ms / 1000,
            response_bytes_max=RESPONSE_BYTES_MAX,
            explain=explain,
        )
        rules = retries.RetryRules(
            RETRIABLE, (Unreachable,), limits.backoff_ms, limits.backoff_ms_max, limits.api_ms / 1000
        )
        reached = BlockingPorts(lambda address: ports.connect(address, settings), ports.monotonic, ports.sleep)
        super().__init__(access, reached, rules)
        self.settings = settings
        self._closed_at_once = 0

    def _open(self, address: Address) -> OpenLink:
        try:
            return super()._open(address)
        except Unauthorized:
            if isinstance(self.settings.sasl, TokenSource):
                self.settings.sasl.forget()
            raise

    def ask(
        self, request: Any, address: Address | None = None, *, at_least: int = 0, at_most: int | None = None
    ) -> Any:
        with self.link(address) as link:
            first = not link.answered
            try:
                answer = link.ask(request, at_least=at_least, at_most=at_most)
            except Disconnected as error:
                if first:
                    self._count_closed_at_once(error)
                raise
        self._closed_at_once = 0
        return answer

    def check(self, code: int, subject: str, reason: str | None = None) -> None:
        """Raise Unauthorized or Refused for a code other than NONE."""
        if code != ErrorCode.NONE:
            raise refusal(code, subject, self.settings, reason)

    def _count_closed_at_once(self, error: Disconnected) -> None:
        """Brokers serve ApiVersions without authentication; those that require it close at the next request."""
        self._closed_at_once += 1
        if self._closed_at_once >= _CLOSED_AT_ONCE_MAX and self.settings.sasl is None:
            raise Unauthorized(
                f"{error}, each time at the first request: it may require authentication "
                "(kafka.security.protocol=SASL_PLAINTEXT or SASL_SSL)"
            ) from None


def refusal(code: int, subject: str, settings: ClientSettings, reason: str | None = None) -> Unauthorized | Refused:
    """The error for a code other than NONE; a missing right is reported with the user's name, if there is one."""
    refused = Refused(subject, code, reason)
    if code not in _UNAUTHORIZED:
        return refused
    if not settings.user:
        return Unauthorized(str(refused))
    return Unauthorized(f"{subject}: {settings.user} is not authorized ({refused.code.name})")


def _login(settings: ClientSettings) -> Login | None:
    sasl = settings.sasl
    if sasl is None:
        return None
    return sasl.credentials if isinstance(sasl, TokenSource) else lambda: sasl
