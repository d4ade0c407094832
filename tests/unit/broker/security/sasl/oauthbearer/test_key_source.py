"""When key sets are fetched, and which one is in force."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.security.sasl.oauthbearer.key_set import KeySetError
from sordini.broker.security.sasl.oauthbearer.key_source import FILE_REFRESH_MS, KeySource, SourceSettings
from sordini.broker.security.sasl.oauthbearer.refresh_schedule import EARLY_MS, RefreshSchedule
from tests.support.fake_ports import ListLog, StillClock
from tests.support.token_issuer import jwk, key_set

URL = SourceSettings("https://issuer.example/keys", 3_600_000, 100, 10_000)
FILE = SourceSettings("file:///etc/keys.json", 3_600_000, 100, 10_000)
FIRST, SECOND = key_set(jwk("rsa")), key_set(jwk("rsa"), jwk("p256"))


class Issuer:
    """What is at the URL: a document, or a failure; it answers when a test lets it."""

    def __init__(self) -> None:
        self.answer: bytes | OSError = FIRST
        self.fetched = 0
        self.asked = asyncio.Event()

    async def fetch(self, url: str) -> bytes:
        assert url in (URL.url, FILE.url)
        self.fetched += 1
        self.asked.set()
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


class Site:
    """A source that runs, on a clock that the test moves."""

    def __init__(self, settings: SourceSettings) -> None:
        self.clock = StillClock()
        self.log = ListLog()
        self.issuer = Issuer()
        self.source = KeySource(settings, self.issuer.fetch, self.clock, self.log)

    async def fetches(self) -> int:
        """Let all run that can; how often was fetched in all."""
        for _ in range(20):
            await asyncio.sleep(0)
        return self.issuer.fetched

    @property
    def ids(self) -> list[str | None]:
        return [key.key_id for key in self.source.current.keys]


@asynccontextmanager
async def a_site(settings: SourceSettings = URL) -> AsyncIterator[Site]:
    site = Site(settings)
    task = asyncio.create_task(site.source.run())
    try:
        await site.issuer.asked.wait()
        yield site
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_keys_are_fetched_at_once_and_then_when_they_are_due() -> None:
    async with a_site() as site:
        assert await site.fetches() == 1
        assert site.ids == ["rsa"]
        assert site.source._schedule.due_ms == site.clock.ms + 3_600_000


async def test_a_missing_key_fetches_them_early_and_not_again_for_a_while() -> None:
    async with a_site() as site:
        await site.fetches()
        site.issuer.answer = SECOND
        for _ in range(100):
            site.source.missed()
        assert await site.fetches() == 2
        assert site.ids == ["rsa", "p256"]
        site.clock.ms += EARLY_MS - 1
        site.source.missed()
        assert await site.fetches() == 2
        site.clock.ms += 1
        site.source.missed()
        assert await site.fetches() == 3


async def test_former_keys_stay_in_force_while_fetching_fails_which_is_logged_once_with_its_end() -> None:
    async with a_site() as site:
        await site.fetches()
        site.clock.ms += EARLY_MS
        for number, answer in enumerate((OSError("status 503"), b"{}", key_set(jwk("p256", is_private=True)))):
            site.issuer.answer = answer
            if number == 0:
                site.source.missed()
            else:
                with suppress(KeySetError):
                    await site.source.load()
            await site.fetches()
            assert site.ids == ["rsa"]
        [(event, fields)] = site.log.at("warning")
        assert event == "OAUTHBEARER keys not fetched; the former stay in force"
        assert (fields["reason"], fields["keys"]) == ("status 503", 1)
        fetched = site.issuer.fetched
        site.clock.ms += EARLY_MS
        site.source.missed()
        assert await site.fetches() == fetched, "a failure has its back-off, whatever tokens come"


async def test_the_end_of_a_failure_is_logged() -> None:
    site = Site(URL._replace(backoff_ms=1, backoff_ms_max=1))
    site.issuer.answer = OSError("unreachable")
    task = asyncio.create_task(site.source.run())
    await site.issuer.asked.wait()
    await site.fetches()
    assert site.source.current.keys == ()
    for answer in (OSError("unreachable"), OSError("for another reason"), FIRST):
        site.issuer.asked.clear()
        site.issuer.answer = answer
        site.clock.ms += 1
        await site.issuer.asked.wait()
        await site.fetches()
    assert site.ids == ["rsa"]
    assert len(site.log.at("warning")) == 1
    assert [event for event, _ in site.log.at("info")] == [
        "OAUTHBEARER keys loaded",
        "OAUTHBEARER keys are fetched again",
    ]
    task.cancel()


async def test_the_same_document_is_not_read_again() -> None:
    site = Site(URL)
    await site.source.load()
    keys = site.source.current
    await site.source.load()
    assert site.source.current is keys
    assert len(site.log.at("info")) == 1
    site.issuer.answer = SECOND
    await site.source.load()
    assert site.ids == ["rsa", "p256"]


async def test_a_failure_is_raised_to_who_loads() -> None:
    site = Site(FILE)
    site.issuer.answer = FileNotFoundError(2, "No such file")
    with pytest.raises(FileNotFoundError):
        await site.source.load()
    site.issuer.answer = b"x"
    with pytest.raises(KeySetError):
        await site.source.load()


async def test_a_file_is_read_again_every_second_also_after_a_failure() -> None:
    site = Site(FILE)
    await site.source.load()
    assert site.source._schedule.due_ms == site.clock.ms + FILE_REFRESH_MS
    site.issuer.answer = OSError("gone")
    for _ in range(5):
        with pytest.raises(OSError, match="gone"):
            await site.source.load()
        assert site.source._schedule.due_ms == site.clock.ms + FILE_REFRESH_MS


@given(st.integers(1, 5_000), st.integers(1, 60_000), st.integers(1, 60))
def test_the_wait_after_a_failure_is_doubled_up_to_its_bound(backoff_ms: int, bound_ms: int, failures: int) -> None:
    schedule = RefreshSchedule(3_600_000, backoff_ms, bound_ms, 0)
    for number in range(failures):
        schedule.failed(0)
        assert schedule.due_ms == min(backoff_ms * 2**number, bound_ms)
    schedule.succeeded(0)
    schedule.failed(0)
    assert schedule.due_ms == min(backoff_ms, bound_ms)


def test_a_missing_key_does_not_shorten_the_wait_after_a_failure() -> None:
    schedule = RefreshSchedule(3_600_000, 60_000, 60_000, 0)
    schedule.succeeded(0)
    schedule.failed(0)
    assert not schedule.missed(EARLY_MS * 2)
    assert schedule.due_ms == 60_000


@given(st.lists(st.integers(0, EARLY_MS), max_size=200))
def test_however_many_keys_are_missing_they_are_fetched_at_most_once_in_a_while(pauses_ms: list[int]) -> None:
    schedule, now_ms, early = RefreshSchedule(3_600_000, 100, 10_000, 0), 0, []
    schedule.succeeded(0)
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        if schedule.missed(now_ms):
            early.append(now_ms)
            schedule.succeeded(now_ms)
    assert all(later - former >= EARLY_MS for former, later in pairwise(early))
    assert len(early) >= sum(pauses_ms) // (2 * EARLY_MS)
