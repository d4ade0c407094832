"""`make run`, the first command of README.md."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.outside.processes import SordiniProcess

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"sordini is ready: broker \d+ of cluster [\w-]{22} listens on (\S+) \(\d+\.\d\d s\)\n")


class MadeBroker(SordiniProcess):
    """The broker of `make run`, on a port and with data of its own; its environment is the one of these tests."""

    def command(self) -> list[str]:
        pairs = " ".join(f"--override {key}={value}" for key, value in self.overrides.items())
        arguments = ["--old-file=.venv/.installed-serve", f"BIN={Path(sys.prefix) / 'bin'}", f"ARGS={pairs}"]
        return ["make", "--no-print-directory", "-C", str(ROOT), *arguments, "run"]

    def environment(self) -> Mapping[str, str]:
        return {name: value for name, value in super().environment().items() if not name.startswith("MAKE")}


def test_make_run_prints_one_line_with_the_address_as_options_take_it(tmp_path: Path) -> None:
    with MadeBroker(tmp_path) as broker:
        found = READY.fullmatch(broker.output())
        assert found is not None, broker.output()
        ping = [str(Path(sys.prefix) / "bin" / "sordini"), "ping", "--bootstrap", found[1]]
        done = subprocess.run(ping, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
