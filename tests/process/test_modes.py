"""Whatever a broker and its commands write is its owner's alone: files 0600 and directories 0700, whatever the umask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.outside.ports import free_port
from tests.process.test_compaction import TINY, produce
from tests.support.wire_client import PATIENCE_S, Client

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
SETTINGS = {**TINY, "log.dirs": "made/by/it/one,made/by/it/two", "log.flush.offset.checkpoint.interval.ms": 50}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """What is started meanwhile inherits it."""
    former = os.umask(mask)
    try:
        yield
    finally:
        os.umask(former)


def run(directory: Path, *arguments: str) -> None:
    ended = subprocess.run(
        [PROGRAM, *arguments], cwd=directory, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def modes(directory: Path) -> dict[str, int]:
    """The mode of everything below a directory, by relative path; what is removed meanwhile is left out."""
    found: dict[str, int] = {}
    for folder, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(folder, name)
            try:
                found[str(path.relative_to(directory))] = path.lstat().st_mode
            except FileNotFoundError:
                continue
    return found


def open_to_others(found: dict[str, int]) -> dict[str, str]:
    wrong = {
        name: mode for name, mode in found.items() if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600)
    }
    return {name: stat.filemode(mode) for name, mode in wrong.items()}


def until_compacted(directory: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    checkpoints = [directory / "made/by/it" / name / "cleaner-offset-checkpoint" for name in ("one", "two")]
    while not any(path.exists() and "prices" in path.read_text() for path in checkpoints):
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.01)


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_everything_that_a_broker_and_a_repair_write_is_their_owner_s_alone(tmp_path: Path, mask: int) -> None:
    port = free_port()
    settings = {**SETTINGS, "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    overrides = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    with umask(mask):
        run(tmp_path, "serve", "--daemon", "--pid-file", "own.pid", "--log-file", "own.log", *overrides)
        try:
            with Client("127.0.0.1", port) as client:
                assert client.create("prices") == [0]
                assert client.create("doomed") == [0]
                produce(client, "prices", range(40))
                until_compacted(tmp_path)
                client.delete("doomed")
            running = modes(tmp_path)
        finally:
            run(tmp_path, "stop", "--pid-file", "own.pid")
        stopped = modes(tmp_path)
        data = next(path.parent for path in tmp_path.glob("made/by/it/*/prices-0"))
        run(tmp_path, "log", "verify", str(data), "--repair", "--to", "mended/copy")
    names = {Path(name).name for name in running | stopped}
    assert {
        ".lock",
        "coordination.sqlite",
        "coordination.sqlite-wal",
        "meta.properties",
        "own.log",
        "own.pid",
        "prices-0",
        "sordini.pid",
        "recovery-point-offset-checkpoint",
        ".kafka_cleanshutdown",
    } <= names
    assert {".log", ".index", ".timeindex", ".snapshot"} <= {Path(name).suffix for name in running | stopped}
    for found in (running, stopped, modes(tmp_path)):
        assert open_to_others(found) == {}
