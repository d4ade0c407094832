"""The output of `sordini doctor`: colour only on a terminal, JSON for programs, and the exit codes of all commands."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sordini.cli.__main__ import main
from tests.doctor.running import PROGRAM, RUN_S_MAX
from tests.outside.ports import free_port

NO_COLOUR = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}


def on_a_terminal(**environment: str) -> str:
    """What the command prints on a terminal."""
    controller, terminal = pty.openpty()
    words = [PROGRAM, "doctor", f"127.0.0.1:{free_port()}"]
    process = subprocess.Popen(words, stdout=terminal, env=NO_COLOUR | {"TERM": "xterm"} | environment)
    os.close(terminal)
    parts = []
    try:
        while part := os.read(controller, 65536):
            parts.append(part)
    except OSError:  # Linux reports the end of the other side so.
        pass
    finally:
        os.close(controller)
        assert process.wait(RUN_S_MAX) == 1
    return b"".join(parts).decode()


def test_a_terminal_has_colour_and_no_colour_takes_it_away() -> None:
    assert "\x1b[31;1mWRONG\x1b[0m" in on_a_terminal()
    assert "\x1b" not in on_a_terminal(NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(TERM="dumb")


def test_a_pipe_has_no_colour() -> None:
    words = [PROGRAM, "doctor", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=RUN_S_MAX, env=NO_COLOUR)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["127.0.0.1:9092", "--broker", "server.properties"],
        ["http://127.0.0.1:9092"],
        ["127.0.0.1:0"],
        ["--broker", "server.properties", "--write"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_refused_before_anything_is_tried(words: list[str]) -> None:
    done = CliRunner().invoke(main, ["doctor", *words], prog_name="sordini")
    assert done.exit_code == 2, done.output


def test_a_file_that_does_not_exist_is_a_fault_in_words(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["doctor", "--broker", str(tmp_path / "none"), "--json"], prog_name="sordini")
    assert done.exit_code == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["fault"] == "configuration-refused"


def test_all_well_takes_a_moment(sordini_broker, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    program = (
        "import sys, time; began = time.monotonic(); from sordini.cli.__main__ import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: sys.stderr.write(f'{time.monotonic() - began:.2f} s')"
    )
    words = [sys.executable, "-c", program, "doctor", sordini_broker.bootstrap]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "All is well.")
    with capsys.disabled():
        sys.stdout.write(f"\n[all well: {done.stderr}]\n")
