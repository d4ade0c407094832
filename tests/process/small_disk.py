"""A broker with a log directory on a file system of 1 MiB, and what fills that."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.outside.processes import SordiniProcess

NAMESPACE = 'mount -t tmpfs -o size=1m sordini-test "$0" && exec "$@"'


class OnASmallDisk(SordiniProcess):
    """A broker whose second log directory is a file system of 1 MiB.

    It is mounted in a namespace of the process's own, so that it goes with the process, however that ends.
    """

    def __init__(self, directory: Path, overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(directory, overrides)
        self.small = directory / "small"
        self.small.mkdir()
        self.overrides["log.dirs"] = f"{self.data_directory},{self.small}"

    def command(self) -> list[str]:
        return [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            NAMESPACE,
            str(self.small),
            *super().command(),
        ]

    @property
    def view(self) -> Path:
        """The small file system, as the broker sees it."""
        return Path(f"/proc/{self.pid}/root{self.small}")


def need_small_disks(directory: Path) -> None:
    """Go on where such a file system can be mounted; otherwise skip."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a file system of one's own takes root and unshare(1)")
    probe = directory / "probe"
    probe.mkdir()
    tried = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", NAMESPACE, str(probe), "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {tried.stderr.strip()}")


def fill(directory: Path) -> Path:
    """A file that takes all the room that is left."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler
