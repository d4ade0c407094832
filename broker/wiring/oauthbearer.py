"""How the issuers' keys and the verification of their tokens get into a broker, where a listener takes OAUTHBEARER."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sordini.broker.configuration.keys.listener_keys import ListenerSecurity
from sordini.broker.configuration.protection.oauthbearer_config import oauthbearer_settings
from sordini.broker.security.sasl.oauthbearer.key_set import DOCUMENT_BYTES_MAX, KeySetError
from sordini.broker.security.sasl.oauthbearer.key_source import FILE_SCHEME, Fetch, KeySource, SourceSettings
from sordini.broker.wiring.deps import Runtime
from sordini.broker.wiring.startup import StartRefused
from sordini.client.file_urls import file_of
from sordini.storage.disk import Disk

if TYPE_CHECKING:
    from sordini.broker.security.sasl.oauthbearer.tokens import TokenVerifier


class KeySources:
    """The key sets of all listeners; those with the same settings share one."""

    def __init__(self, fetch: Fetch, runtime: Runtime) -> None:
        self._fetch = fetch
        self._runtime = runtime
        self._sources: dict[SourceSettings, KeySource] = {}
        self._is_started = False

    def verifier(self, security: ListenerSecurity) -> TokenVerifier:
        """What accepts the tokens of a listener. `Config` has checked its keys."""
        from sordini.broker.security.sasl.oauthbearer.claims import TokenRules  # Late: few brokers take tokens.
        from sordini.broker.security.sasl.oauthbearer.tokens import TokenVerifier

        keys = oauthbearer_settings(security)
        assert keys.oauthbearer_jwks_endpoint_url, "checked by Config"
        source = self._source(
            SourceSettings(
                keys.oauthbearer_jwks_endpoint_url,
                keys.oauthbearer_jwks_endpoint_refresh_ms,
                keys.oauthbearer_jwks_endpoint_retry_backoff_ms,
                keys.oauthbearer_jwks_endpoint_retry_backoff_max_ms,
            )
        )
        rules = TokenRules(
            keys.oauthbearer_expected_issuer,
            frozenset(filter(None, (keys.oauthbearer_expected_audience or "").split(","))),
            keys.oauthbearer_clock_skew_seconds,
            keys.oauthbearer_sub_claim_name,
            keys.oauthbearer_scope_claim_name,
        )
        return TokenVerifier(source, rules, self._runtime.clock.now_ms)

    async def start(self) -> None:
        """Read the files, and keep all key sets current. Raises StartRefused for a file that cannot be used.

        A URL that cannot be reached refuses no start: no token is accepted until it is.
        """
        self._is_started = True
        for source in self._sources.values():
            if source.is_file:
                try:
                    await source.load()
                except (OSError, KeySetError) as error:
                    raise StartRefused(f"the keys of OAUTHBEARER at {source.url} cannot be used: {error}") from error
            self._runtime.spawn(source.run())

    def _source(self, settings: SourceSettings) -> KeySource:
        source = self._sources.get(settings)
        if source is None:
            source = KeySource(settings, self._fetch, self._runtime.clock, self._runtime.log)
            self._sources[settings] = source
            if self._is_started:  # A listener that takes OAUTHBEARER since a change at run time.
                self._runtime.spawn(source.run())
        return source


def key_fetcher(disk: Disk) -> Fetch:
    """Reads key sets from files and from the network, beside the loop."""

    async def fetch(url: str) -> bytes:
        if url.startswith(FILE_SCHEME):
            return await asyncio.to_thread(disk.read, file_of(url))
        from sordini.broker.network.documents import fetch_document  # Late: with it comes Python's HTTP.

        return await fetch_document(url, DOCUMENT_BYTES_MAX)

    return fetch
