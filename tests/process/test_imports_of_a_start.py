"""What the process of a command imports, and when its garbage collector runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside.processes import DevProcess, SordiniProcess

NOT_FOR_A_START = frozenset(
    [
        "aiokafka",
        "argparse",
        "cryptography",
        "email",
        "fastavro",
        "google.protobuf",
        "grpc_tools",
        "jsonschema",
        "sordini.schemas",
        "importlib.metadata",
        "jwt",
        "lzma",
        "opentelemetry",
        "kazoo",
        "prometheus_client",
        "rich.pretty",
        "sordini.broker.metrics.tracing",
        "twisted",
        "yaml",
        "tempfile",
        "zipfile",
    ]
)
IMPORTED = re.compile(r"^import time: .*\| +([\w.]+)$", re.MULTILINE)


def ended(*words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """The command run as the installed one runs, in a process that says at its end whether the collector runs."""
    program = (
        f"import atexit, gc, sys; atexit.register(lambda: print('collector', gc.isenabled())); {before}\n"
        f"sys.argv = {['sordini', *words]!r}\nfrom sordini.cli.entry import run\n"
        "print('collector', gc.isenabled())\nrun()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)


def imported(output: str) -> set[str]:
    return set(IMPORTED.findall(output))


@pytest.mark.parametrize(
    "words", [("serve", "--override", "listeners=none"), ("dev", "--override", "log.dirs=x"), ("ping", "extra")]
)
def test_the_collector_begins_behind_the_imports_of_every_command(words: tuple[str, ...]) -> None:
    found = ended(*words)
    assert found.returncode == 2, found.stderr
    assert re.findall(r"collector (\w+)", found.stdout) == ["False", "True"]


@pytest.mark.parametrize("kind", [SordiniProcess, DevProcess])
def test_a_broker_starts_without_modules_that_it_does_not_need(kind: type[SordiniProcess], tmp_path: Path) -> None:
    class Traced(kind):  # type: ignore[misc, valid-type]
        def environment(self) -> dict[str, str]:
            return {**super().environment(), "PYTHONPROFILEIMPORTTIME": "1"}

    with Traced(tmp_path) as process:
        found = imported(process.output())
    assert "sordini.broker.wiring.server" in found
    assert sorted(found & NOT_FOR_A_START) == []


def test_structlog_is_imported_without_rich_and_rich_can_be_imported_behind_it() -> None:
    pytest.importorskip("rich")
    program = (
        "import sys; from sordini.broker.process.log_library import import_without_extras as take; take(); take()\n"
        "import structlog; print('rich' in sys.modules, structlog.dev.rich); import rich; print(rich.__name__)"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, text=True, env=environment, timeout=60) == "False None\nrich\n"


def test_where_structlog_was_imported_before_it_stays_as_it_was() -> None:
    pytest.importorskip("rich")
    program = (
        "import structlog; from sordini.broker.process.log_library import import_without_extras as take; take()\n"
        "print(structlog.dev.rich.__name__)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60) == "rich\n"
