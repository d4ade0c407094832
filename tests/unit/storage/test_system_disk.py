"""The real disk does what the forgetful one promises in its place."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.storage.disk import NEWEST_BYTES_MAX, NEWEST_FILES_MAX, SystemDisk, make_private_file
from sordini.storage.log_manager import Identity, LogManager
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, contents
from tests.unit.storage.test_log import put


def test_appends_go_after_the_end_and_writes_where_they_are_reported(tmp_path: Path) -> None:
    disk = SystemDisk()
    file = disk.open(f"{tmp_path}/f", create=True)
    assert file.append((b"abc", b"def")) == 6
    assert file.append((memoryview(b"ghi"),)) == 3
    assert file.write_at(1, b"XY") == 2
    assert file.read_at(0, 100) == b"aXYdefghi"
    file.truncate(4)
    assert file.append((b"!",)) == 1
    assert (file.size(), file.read_at(2, 3)) == (5, b"Yd!")
    file.truncate(8)
    assert file.read_at(5, 9) == bytes(3)
    file.sync()
    file.close()
    file.close()
    assert disk.file_size(f"{tmp_path}/f") == 8


def test_the_last_small_appends_are_at_hand_until_their_file_changes_otherwise(tmp_path: Path) -> None:
    disk = SystemDisk()
    file, other = (disk.open(f"{tmp_path}/{name}", create=True) for name in "fg")

    def append_again() -> None:
        file.truncate(0)
        file.append((b"abc",))
        file.append((b"defghi",))
        assert file.newest(3, 6) == b"defghi"
        assert file.newest(0, 9) == b"abcdefghi", "several appends are one run of bytes"

    append_again()
    assert file.newest(4, 2) == b"ef"
    other.append((b"xyz",))
    assert file.newest(2, 2) == b"cd", "each file has its own"
    for position, size in ((3, 7), (9, 1), (-1, 2)):
        assert file.newest(position, size) is None, f"{size} bytes from {position} are not all among the last"
    assert other.newest(3, 6) is None
    file.append((bytes(NEWEST_BYTES_MAX - 8),))
    assert (file.newest(3, 6), file.newest(9, 2)) == (None, bytes(2)), "what exceeds the bound begins a new run"
    changes: list[Callable[[], object]] = [
        lambda: file.append((b"x", b"yz")),
        lambda: file.append((bytes(NEWEST_BYTES_MAX + 1),)),
        lambda: [begin_to_cache(disk, f"{tmp_path}/{number}") for number in range(NEWEST_FILES_MAX)],
        lambda: file.write_at(4, b"!"),
        lambda: file.truncate(5),
        file.close,
    ]
    for change in changes:
        append_again()
        change()
        assert file.newest(3, 2) is None


def begin_to_cache(disk: SystemDisk, path: str) -> None:
    file = disk.open(path, create=True)
    file.append((b"x",))


def test_another_process_sees_the_lock(tmp_path: Path) -> None:
    disk = SystemDisk()
    path = f"{tmp_path}/.lock"
    attempt = f"import fcntl; fcntl.lockf(open({path!r}, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    def is_refused() -> bool:
        return subprocess.run([sys.executable, "-S", "-c", attempt], check=False, capture_output=True).returncode != 0

    lock = disk.lock(path)
    assert is_refused()
    lock.close()
    assert not is_refused()


async def test_a_log_on_the_real_disk_survives_a_clean_and_an_unclean_restart(tmp_path: Path) -> None:
    disk = SystemDisk()

    def a_manager() -> LogManager:
        return LogManager(disk, [str(tmp_path)], Identity(1, "c" * 22), lambda _: SMALL, random.Random(1))

    manager = a_manager()
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    for _ in range(12):
        put(log)
    await log.flush()
    held = contents(log)
    for clean in (True, False, True):
        await manager.close(clean=clean)
        manager = a_manager()
        manager.open(0)
        found = manager.get(PARTITION)
        assert found is not None
        assert contents(found) == held
    await manager.close()
    disk.close()


def test_missing_files_and_taken_locks_are_errors(tmp_path: Path) -> None:
    disk = SystemDisk()
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/none")
    with pytest.raises(FileNotFoundError):
        disk.file_size(f"{tmp_path}/none")
    disk.make_directory(f"{tmp_path}/a/b")
    disk.make_directory(f"{tmp_path}/a/b")
    assert disk.is_directory(f"{tmp_path}/a/b")
    assert disk.list_directory(f"{tmp_path}/a") == ["b"]
    disk.sync_directory(f"{tmp_path}/a")
    disk.remove_directory(f"{tmp_path}/a/b")
    assert not disk.exists(f"{tmp_path}/a/b")


def test_room_is_reserved_behind_the_end_of_a_file_and_given_back(tmp_path: Path) -> None:
    disk = SystemDisk()
    path = f"{tmp_path}/f"
    file = disk.open(path, create=True)
    file.append((b"abc",))
    try:
        file.reserve(1 << 20)
    except OSError as error:
        pytest.skip(f"the file system reserves nothing: {error}")
    assert Path(path).stat().st_blocks * 512 >= 1 << 20
    assert disk.file_size(path) == file.size() == 3
    file.append((b"def",))
    assert file.read_at(0, 100) == b"abcdef"
    file.give_back()
    assert Path(path).stat().st_blocks * 512 < 1 << 20
    assert file.read_at(0, 100) == b"abcdef"


async def test_a_preallocated_segment_has_its_room_until_it_is_closed(tmp_path: Path) -> None:
    disk = SystemDisk()
    config = SMALL._replace(preallocate=True, segment_bytes=1 << 20)
    manager = LogManager(disk, [str(tmp_path)], Identity(1, "c" * 22), lambda _: config, random.Random(1))
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, config)
    if not log.segments.active.is_reserved:
        pytest.skip("the file system reserves nothing")
    put(log)

    def room() -> list[bool]:
        return [Path(segment.handle.path).stat().st_blocks * 512 >= 1 << 20 for segment in log.segments.all()]

    assert room() == [True]
    log.roll(0)
    assert room() == [False, True]
    put(log)
    size = log.segments.active.size
    assert disk.file_size(log.segments.active.handle.path) == size, "no zeros follow the records"
    await manager.close()
    assert room() == [False, False]


def test_directories_and_small_files_are_read_in_one_go(tmp_path: Path) -> None:
    disk = SystemDisk()
    for name in ("b", "a"):
        disk.make_directory(f"{tmp_path}/{name}")
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert disk.directories(str(tmp_path)) == ["a", "b", "link"]
    assert disk.read(f"{tmp_path}/file") == b"x" * 200_000
    with pytest.raises(FileNotFoundError):
        disk.read(f"{tmp_path}/none")


@pytest.mark.parametrize("mask", [0o000, 0o027, 0o077])
def test_what_is_made_is_its_owner_s_alone_and_what_exists_keeps_its_mode(tmp_path: Path, mask: int) -> None:
    disk = SystemDisk()
    shared, group = tmp_path / "shared", tmp_path / "shared" / "group"
    shared.mkdir()
    shared.chmod(0o775)
    group.touch()
    group.chmod(0o664)
    former = os.umask(mask)
    try:
        disk.make_directory(f"{shared}/a/b/c/")
        disk.make_directory(f"{shared}/a")
        disk.make_directory(str(shared))
        disk.open(f"{shared}/a/file", create=True).close()
        disk.lock(f"{shared}/a/lock").close()
        disk.open(str(group), create=True).close()
        make_private_file(f"{shared}/a/private")
        make_private_file(str(group))
    finally:
        os.umask(former)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (shared, *shared.rglob("*"))}
    assert modes == {"shared": 0o775, "group": 0o664} | dict.fromkeys("abc", 0o700) | dict.fromkeys(
        ("file", "lock", "private"), 0o600
    )


def test_a_directory_in_whose_place_a_file_is_is_not_made(tmp_path: Path) -> None:
    disk = SystemDisk()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        disk.make_directory(f"{tmp_path}/file")
    with pytest.raises(NotADirectoryError):
        disk.make_directory(f"{tmp_path}/file/below")
    with pytest.raises(FileNotFoundError):
        disk.make_directory("")
