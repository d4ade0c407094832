"""Calls on files: what both ways promise, and where they differ."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.system.conftest import Load


@pytest.fixture
def files(load: Load) -> ModuleType:
    return load("files")


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_buffers_are_written_at_the_position(files: ModuleType, tmp_path: Path) -> None:
    descriptor = opened(tmp_path / "file")
    assert files.write_many(descriptor, [b"ab", bytearray(b"cd"), memoryview(b"e")], 2) == 5
    files.sync(descriptor)
    os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"\0\0abcde"


def test_a_directory_can_be_forced_to_the_disk(files: ModuleType, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    files.sync(descriptor)
    os.close(descriptor)


def test_a_file_in_memory_is_its_owners_and_gone_once_closed(files: ModuleType) -> None:
    data = os.urandom(300_000)
    file = files.MemoryFile("keys", data)
    assert Path(file.path).read_bytes() == data
    if not files.USES_LINUX_CALLS:
        assert stat.S_IMODE(Path(file.path).stat().st_mode) == 0o600
    file.close()
    assert not Path(file.path).exists()


def test_space_is_reserved_without_a_change_of_size_or_refused_as_an_error_of_the_disk(
    files: ModuleType, tmp_path: Path
) -> None:
    descriptor = opened(tmp_path / "file")
    with contextlib.nullcontext() if files.USES_LINUX_CALLS else pytest.raises(OSError, match="not supported"):
        files.reserve(descriptor, 1 << 20)
    assert os.fstat(descriptor).st_size == 0
    assert (os.fstat(descriptor).st_blocks * 512 >= 1 << 20) == files.USES_LINUX_CALLS
    os.close(descriptor)


def test_only_linux_opens_a_pipe_again_without_blocking_it(files: ModuleType) -> None:
    reader, writer = os.pipe()
    if files.USES_LINUX_CALLS:
        second = files.open_again_without_blocking(writer)
        assert not os.get_blocking(second)
        assert os.get_blocking(writer)
        os.close(second)
    else:
        with pytest.raises(OSError, match="not supported"):
            files.open_again_without_blocking(writer)
    os.close(reader)
    os.close(writer)


def test_only_linux_reads_unless_that_waits(files: ModuleType) -> None:
    assert (files.READ_NOWAIT is not None) == files.USES_LINUX_CALLS


@pytest.mark.parametrize("refusal", [None, errno.ENOTSUP, errno.EIO])
def test_where_there_is_a_full_sync_it_is_used_and_fsync_where_it_is_refused(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusal: int | None
) -> None:
    calls: list[object] = []

    def control(descriptor: int, command: int) -> int:
        calls.append(command)
        if refusal is not None:
            raise OSError(refusal, os.strerror(refusal))
        return descriptor

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    files = load("files")
    descriptor = opened(tmp_path / "file")
    if refusal == errno.EIO:
        with pytest.raises(OSError, match=r"Input/output"):
            files.sync(descriptor)
    else:
        files.sync(descriptor)
    assert calls == ([51, "fsync"] if refusal == errno.ENOTSUP else [51])
    os.close(descriptor)
