"""The disk of the crash tests itself: which writes it may lose, and which not."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from sordini.testing.simulation.forgetful_disk import ForgetfulDisk

SEEDS = range(300)
SYNCED, LATER = b"s" * 700, b"w" * 900


def a_disk(path: str = "/d/f") -> ForgetfulDisk:
    """A file of which 700 bytes are on the disk, name and all."""
    disk = ForgetfulDisk()
    disk.make_directory("/d")
    file = disk.open(path, create=True)
    file.append([SYNCED])
    file.sync()
    file.close()
    disk.sync_directory("/d")
    disk.sync_directory("/")
    return disk


def outcomes(disk: ForgetfulDisk, path: str = "/d/f") -> set[bytes]:
    survivors = (disk.power_lost(seed) for seed in SEEDS)
    return {survivor.contents(path) for survivor in survivors if survivor.exists(path)}


def test_what_was_synced_is_kept_whatever_comes_after_it() -> None:
    disk = a_disk()
    disk.open("/d/f").append([LATER])
    assert all(found.startswith(SYNCED) for found in outcomes(disk))


@pytest.mark.parametrize(
    ("name", "is_so"),
    [
        ("lost", lambda found: found == SYNCED),
        ("kept", lambda found: found == SYNCED + LATER),
        ("torn", lambda found: SYNCED < found < SYNCED + LATER and set(found[700:]) <= {ord("w")}),
        ("zeros in its place", lambda found: found == SYNCED + bytes(900)),
        ("a sector of something else", lambda found: len(found) == 1600 and not set(found[700:]) <= {0, ord("w")}),
    ],
)
def test_an_unsynced_write_may_be(name: str, is_so: Callable[[bytes], bool]) -> None:
    disk = a_disk()
    disk.open("/d/f").append([LATER])
    assert any(map(is_so, outcomes(disk))), name


def test_unsynced_writes_are_kept_in_any_combination() -> None:
    disk = a_disk()
    file = disk.open("/d/f")
    for letter in (b"a", b"b", b"c"):
        file.append([letter])
    found = {image[700:] for image in outcomes(disk)}
    assert {b"", b"a", b"ab", b"abc", b"\0b", b"\0\0c", b"a\0c"} <= found


def test_a_new_file_needs_its_directory_synced() -> None:
    disk = a_disk()
    file = disk.open("/d/new", create=True)
    file.append([b"x"])
    file.sync()
    assert {disk.power_lost(seed).exists("/d/new") for seed in SEEDS} == {True, False}
    disk.sync_directory("/d")
    assert {disk.power_lost(seed).exists("/d/new") for seed in SEEDS} == {True}


def test_a_rename_over_a_file_leaves_the_old_or_the_new() -> None:
    disk = a_disk()
    file = disk.open("/d/f.tmp", create=True)
    file.append([b"new"])
    file.sync()
    disk.rename("/d/f.tmp", "/d/f")
    assert outcomes(disk) == {SYNCED, b"new"}
    disk.sync_directory("/d")
    assert outcomes(disk) == {b"new"}


def test_the_changes_of_one_directory_reach_the_disk_in_order_and_those_of_two_do_not() -> None:
    disk = a_disk()
    disk.make_directory("/e")
    disk.sync_directory("/")
    for path in ("/d/1", "/d/2", "/e/1"):
        disk.open(path, create=True)
    found = {
        tuple(survivor.exists(path) for path in ("/d/1", "/d/2", "/e/1"))
        for survivor in (disk.power_lost(seed) for seed in SEEDS)
    }
    assert found == {
        (one, one and two, other) for one in (True, False) for two in (True, False) for other in (True, False)
    }


def test_a_failed_sync_drops_bytes_and_the_next_one_succeeds() -> None:
    kept = set()
    for seed in range(20):
        disk = a_disk()
        disk.chance.seed(seed)
        file = disk.open("/d/f")
        file.append([b"w"])
        disk.fail(1, errno.EIO)
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        file.sync()
        assert file.read_at(700, 1) == b"w"
        kept.add(disk.killed().contents("/d/f"))
    assert kept == {SYNCED, SYNCED + b"w"}


def test_calls_that_only_look_can_be_refused() -> None:
    disk = a_disk()
    file = disk.open("/d/f")
    disk.refuse_while(lambda kind, _: kind in ("open", "read"), errno.EMFILE)
    for call in (lambda: disk.open("/d/f"), lambda: file.read_at(0, 1)):
        with pytest.raises(OSError, match="Too many open files"):
            call()
    disk.heal()
    assert file.read_at(0, 1) == b"s"
