"""Is a range of a file in memory, and bringing it in when it is not."""

import contextlib
import os

import pytest

from sordini.broker.network import page_cache
from sordini.broker.network.page_cache import NEWEST_BYTES, NEWEST_MS, PROBE_STEP_BYTES, WARM_MS, SystemPageCache
from tests.support.fake_ports import FakeFile, StillClock
from tests.support.linux_calls import needs_linux_calls

SIZE = 4 * 1024 * 1024


async def inline(function):
    return function()


class Refusing:
    """A probe that answers as a file system or a cold cache would."""

    def __init__(self, error=None):
        self.error = error
        self.calls = []

    def __call__(self, descriptor, buffers, position, flags):
        self.calls.append((position, sum(len(buffer) for buffer in buffers)))
        if self.error is not None:
            raise self.error
        return os.pread(descriptor, sum(len(buffer) for buffer in buffers), position).__len__()


@pytest.fixture
def file(tmp_path):
    with contextlib.closing(FakeFile(tmp_path / "segment.log", bytes(SIZE))) as file:
        yield file


def old_cache(file, clock):
    """A cache that considers the file written long ago."""
    clock.ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000 + NEWEST_MS + 1000
    return SystemPageCache(clock, inline)


@pytest.fixture
def clock():
    return StillClock()


@needs_linux_calls
def test_a_range_in_memory_is_probed_by_single_bytes_along_it_and_at_its_end(file, clock, monkeypatch):
    probe = Refusing()
    monkeypatch.setattr(page_cache.os, "preadv", probe)
    cache = old_cache(file, clock)
    assert cache.is_warm(file, 1000, 150_000)
    assert probe.calls == [(1000, 1), (1000 + PROBE_STEP_BYTES, 1), (1000 + 2 * PROBE_STEP_BYTES, 1), (150_999, 1)]
    probe.calls.clear()
    assert cache.is_warm(file, 1_000_000, 1)
    assert probe.calls == [(1_000_000, 1)]
    probe.calls.clear()
    assert cache.is_warm(file, 2_000_000, PROBE_STEP_BYTES + 637)
    assert probe.calls == [(2_000_000, 1), (2_000_000 + PROBE_STEP_BYTES + 636, 1)], (
        "two samples side by side tell no more"
    )


@needs_linux_calls
def test_an_old_range_of_a_growing_file_is_probed_without_asking_for_its_age(file, clock, monkeypatch):
    cache = old_cache(file, clock)
    asked, fstat = [], os.fstat

    def noted(descriptor):
        asked.append(descriptor)
        return fstat(descriptor)

    monkeypatch.setattr(page_cache.os, "fstat", noted)
    assert cache.is_warm(file, 0, 100_000)
    assert file.fileno() not in asked
    cache.is_warm(file, SIZE - 100_000, 100_000)
    assert file.fileno() in asked


@needs_linux_calls
def test_a_range_is_cold_when_any_of_its_samples_is(file, clock, monkeypatch):
    def cold_from(position):
        def probe(descriptor, buffers, at, flags):
            if at >= position:
                raise BlockingIOError
            return 1

        return probe

    cache = old_cache(file, clock)
    monkeypatch.setattr(page_cache.os, "preadv", cold_from(199_999))
    assert not cache.is_warm(file, 0, 200_000), "the last byte is cold"
    assert cache.is_warm(file, 0, 199_999)
    monkeypatch.setattr(page_cache.os, "preadv", cold_from(0))
    assert not cache.is_warm(file, 500_000, 1)


@needs_linux_calls
def test_a_range_that_was_seen_to_be_warm_is_believed_for_a_while(file, clock, monkeypatch):
    probe = Refusing()
    monkeypatch.setattr(page_cache.os, "preadv", probe)
    cache = old_cache(file, clock)
    assert cache.is_warm(file, 0, 100_000)
    assert cache.is_warm(file, 50_000, 50_000)
    assert cache.probes == 1
    assert cache.is_warm(file, 50_000, 50_001)
    assert cache.probes == 2
    clock.ms += WARM_MS
    assert cache.is_warm(file, 0, 100_000)
    assert cache.probes == 3


def test_the_newest_bytes_of_a_file_that_was_just_written_are_not_probed(file, clock, monkeypatch):
    probe = Refusing(BlockingIOError())
    monkeypatch.setattr(page_cache.os, "preadv", probe)
    clock.ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
    cache = SystemPageCache(clock, inline)
    assert cache.is_warm(file, SIZE - 100_000, 100_000)
    assert not probe.calls
    assert not cache.is_warm(file, SIZE - NEWEST_BYTES - 100_000, 100_000)
    clock.ms += NEWEST_MS
    assert not cache.is_warm(file, SIZE - 100_000, 100_000), "an old file's end is as cold as the rest"


async def test_a_cold_range_is_read_in_a_thread_with_what_follows_and_then_believed(file, clock, monkeypatch):
    probe = Refusing(BlockingIOError())
    monkeypatch.setattr(page_cache.os, "preadv", probe)
    cache = old_cache(file, clock)
    assert not cache.is_warm(file, 0, 100_000)
    assert cache.misses == 1
    await cache.warm(file, 0, 100_000)
    assert cache.is_warm(file, 0, 1_000_000)
    assert not cache.is_warm(file, 2_000_000, 10)


@needs_linux_calls
@pytest.mark.parametrize("error", [OSError(95, "not supported"), OSError(22, "invalid")])
async def test_where_probing_is_refused_everything_but_the_newest_bytes_is_read_ahead(file, clock, monkeypatch, error):
    probe = Refusing(error)
    monkeypatch.setattr(page_cache.os, "preadv", probe)
    cache = old_cache(file, clock)
    assert not cache.is_warm(file, 0, 10)
    assert not cache.is_warm(file, 0, 10)
    assert len(probe.calls) == 1, "a refusal is remembered"
    await cache.warm(file, 0, 10)
    assert cache.is_warm(file, 0, 10)
    clock.ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
    assert cache.is_warm(file, SIZE - 10, 10)


async def test_a_broken_file_is_left_to_the_send_to_find_out(file, clock):
    cache = old_cache(file, clock)
    file.close()
    assert cache.is_warm(file, 0, 100_000)
    await cache.warm(file, 0, 100_000)


def test_the_real_probe_finds_bytes_that_were_just_read(file, clock):
    cache = old_cache(file, clock)
    file.read_at(0, SIZE)
    if cache.is_warm(file, 0, 1_000_000):
        assert cache.probes == 1
    else:
        assert not cache._may_probe, "only a file system without the call may say no here"
