"""Keeps the key set of one issuer current: fetches it again by its schedule, and keeps the former where that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from sordini.broker.security.sasl.oauthbearer.key_set import KeySet, KeySetError, read_key_set
from sordini.broker.security.sasl.oauthbearer.refresh_schedule import RefreshSchedule
from sordini.replication.ports import Clock, Logger
from sordini.system.named_tuple import NamedTuple

FILE_SCHEME: Final = "file:"
FILE_REFRESH_MS: Final = 1_000
"""A file is read so often: a new one is in force within a second or two, as TLS stores are."""

Fetch = Callable[[str], Awaitable[bytes]]
"""The document at a URL, of at most `DOCUMENT_BYTES_MAX`; raises OSError with the reason."""


class SourceSettings(NamedTuple):
    """Where a key set is, and how often it is fetched."""

    url: str
    refresh_ms: int
    """Of a URL that is no file's; after a failure it is fetched again after the back-off."""
    backoff_ms: int
    backoff_ms_max: int


class KeySource:
    """The keys of one document. As `tokens.Keys`."""

    def __init__(self, settings: SourceSettings, fetch: Fetch, clock: Clock, log: Logger) -> None:
        self.url = settings.url
        self.is_file = settings.url.startswith(FILE_SCHEME)
        refresh_ms = FILE_REFRESH_MS if self.is_file else settings.refresh_ms
        backoffs = (refresh_ms, refresh_ms) if self.is_file else (settings.backoff_ms, settings.backoff_ms_max)
        self._schedule = RefreshSchedule(refresh_ms, *backoffs, clock.monotonic_ms())
        self._fetch = fetch
        self._clock = clock
        self._log = log
        self._document: bytes | None = None
        self._failure: str | None = None
        """The reason of the last fetch, if it failed: logged once."""
        self._hurry = asyncio.Event()
        self.current = KeySet()

    def missed(self) -> None:
        """Fetch the keys early, unless that was done a moment ago."""
        if self._schedule.missed(self._clock.monotonic_ms()):
            self._hurry.set()

    async def load(self) -> None:
        """Fetch the keys now, and use them if they are others. Raises OSError and KeySetError."""
        try:
            document = await self._fetch(self.url)
            if document != self._document:
                self.current = read_key_set(document)
                self._document = document
                self._log.info(
                    "OAUTHBEARER keys loaded",
                    url=self.url,
                    keys=len(self.current.keys),
                    skipped="; ".join(self.current.skipped[:5]),
                )
        except (OSError, KeySetError):
            self._schedule.failed(self._clock.monotonic_ms())
            raise
        self._schedule.succeeded(self._clock.monotonic_ms())

    async def run(self) -> None:
        """Load by the schedule until it is cancelled; a failure is logged once, and so is its end."""
        while True:
            await self._until_due()
            try:
                await self.load()
            except (OSError, KeySetError) as error:
                self._failed(str(error))
            else:
                if self._failure is not None:
                    self._log.info("OAUTHBEARER keys are fetched again", url=self.url)
                self._failure = None

    async def _until_due(self) -> None:
        wait_ms = self._schedule.due_ms - self._clock.monotonic_ms()
        try:
            async with asyncio.timeout(max(wait_ms, 0) / 1000):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()

    def _failed(self, reason: str) -> None:
        if self._failure is None:
            self._log.warning(
                "OAUTHBEARER keys not fetched; the former stay in force",
                url=self.url,
                keys=len(self.current.keys),
                reason=reason,
            )
        self._failure = reason
