"""Blocks of a documentation page, pasted into a shell one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def reader_environment(**more: str) -> dict[str, str]:
    """A reader's environment in which our commands are found."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, **more}


def paste(blocks: Sequence[str], directory: Path, environment: Mapping[str, str], seconds_max: float) -> list[str]:
    """What each block prints on both outputs. One that fails, or takes longer than `seconds_max`, fails the test."""
    return [_pasted(block, directory, environment, seconds_max) for block in blocks]


def _pasted(block: str, directory: Path, environment: Mapping[str, str], seconds_max: float) -> str:
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", block],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds_max,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}"
    return done.stdout
