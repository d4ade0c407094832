"""Windows is refused, by one sentence, wherever a program begins."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

REFUSAL = "Sordini runs on Linux and macOS; on Windows, use it inside WSL2 or in a container"
WINDOWS = """
import asyncio, click, ctypes, multiprocessing, subprocess, sys, tempfile  # As they are: only Sordini gets to see Windows.
sys.platform = "win32"
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # Their import fails there.
"""


def on_windows(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose Python calls its system Windows, and has no modules of POSIX."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", WINDOWS + textwrap.dedent(code)]
    return subprocess.run(command, env=environment, cwd=directory, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    "module",
    [
        "sordini.broker.network.principal",
        "sordini.coordination_store.kazoo_values",
        "sordini.storage.disk",
        "sordini.client.tls.contexts",
        "sordini.broker.wiring.server",
        "sordini.testing.kafka",
    ],
)
def test_an_import_of_the_product_is_refused_by_one_sentence(module: str, tmp_path: Path) -> None:
    ended = on_windows(f"import {module}", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"sordini.system.supported.UnsupportedSystem: {REFUSAL}"


def test_the_command_prints_the_sentence_and_no_traceback(tmp_path: Path) -> None:
    ended = on_windows('sys.argv = ["sordini", "serve"]\nfrom sordini.cli.__main__ import main\nmain()', tmp_path)
    assert (ended.returncode, ended.stderr) == (1, f"sordini: {REFUSAL}\n")


def test_tests_that_use_the_kit_fail_by_that_sentence_and_others_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(WINDOWS)
    (tmp_path / "test_mine.py").write_text("def test_kit(kafka): pass\ndef test_other(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "sordini.testing.plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command += ["-c", os.devnull, "--rootdir", "."]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "1 passed, 1 error" in ended.stdout
    assert REFUSAL in ended.stdout.splitlines()
    assert "Traceback" not in ended.stdout
