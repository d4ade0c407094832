"""The pid file of this process; what other processes see of it is in tests/process/test_daemon.py."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sordini.broker.process import pid_file
from sordini.broker.process.pid_file import PidFileRefused
from sordini.storage.disk import File, SystemDisk

DISK = SystemDisk()


def test_the_file_holds_the_number_and_goes_when_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "own.pid"
    claimed = pid_file.claim(DISK, str(path), 4711)
    assert claimed.path == str(path)
    assert path.read_text() == "4711\n"
    claimed.remove()
    assert not path.exists()


@pytest.mark.parametrize("left_over", ["", "1", "12345678\n", " 42 \n\n"])
def test_what_a_former_process_left_is_replaced_whole(tmp_path: Path, left_over: str) -> None:
    path = tmp_path / "own.pid"
    path.write_text(left_over)
    claimed = pid_file.claim(DISK, str(path), 7)
    assert path.read_text() == "7\n"
    claimed.remove()


@pytest.mark.parametrize("content", ["dear diary", "12 monkeys", "-3\n"])
def test_another_file_is_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "own.pid"
    path.write_text(content)
    with pytest.raises(PidFileRefused, match="is not a pid file"):
        pid_file.claim(DISK, str(path), 7)
    assert path.read_text() == content


@pytest.mark.parametrize("content", [None, "", "4711\n"])
def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path, content: str | None) -> None:
    target, path = tmp_path / "precious", tmp_path / "own.pid"
    if content is not None:
        target.write_text(content)
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links") as refused:
        pid_file.claim(DISK, str(path), 7)
    assert refused.value.errno == errno.ELOOP
    assert path.is_symlink()
    assert (target.read_text() if target.exists() else None) == content


def test_a_pid_file_without_a_lock_has_no_holder_whatever_number_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "own.pid"
    path.write_text(f"{os.getppid()}\n")
    assert pid_file.holder(DISK, str(path)) is None
    with pytest.raises(FileNotFoundError):
        pid_file.holder(DISK, str(tmp_path / "other.pid"))


class Vanishing(SystemDisk):
    """The file's last owner removes it between our opening it and our lock, once."""

    def __init__(self) -> None:
        super().__init__()
        self.locked = 0

    def lock(self, path: str) -> File:
        file = super().lock(path)
        self.locked += 1
        if self.locked == 1:
            Path(path).unlink()
        return file


def test_a_file_that_vanished_under_the_lock_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "own.pid"
    claimed = pid_file.claim(Vanishing(), str(path), 7)
    assert path.read_text() == "7\n"
    claimed.remove()


class Stubborn(SystemDisk):
    def remove(self, path: str) -> None:
        raise OSError(errno.EACCES, "Permission denied", path)


def test_a_file_that_cannot_be_removed_counts_as_left_over(tmp_path: Path) -> None:
    path = tmp_path / "own.pid"
    pid_file.claim(Stubborn(), str(path), 7).remove()
    assert path.exists()
    assert pid_file.holder(DISK, str(path)) is None
