"""aiokafka's own test suite, with the test kit in place of its containers: `make aiokafka-suite`.

    python -m tests.client_suites [ARGUMENT OF PYTEST...]

`python3 scripts/outside.py aiokafka-suite` fetches the suite and makes the environment in which it runs: the release of
aiokafka from the package index, and the libraries of pytest that the suite pins.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scripts.client_suites import AIOKAFKA_SUITE
from scripts.fetching import ROOT
from tests.outside.versions import AIOKAFKA_SUITE_COMMIT

PLUGIN = Path(__file__).with_name("aiokafka_kit.py")


def main(arguments: list[str]) -> None:
    python = AIOKAFKA_SUITE / "environment" / "venv" / "bin" / "python"
    source = AIOKAFKA_SUITE / AIOKAFKA_SUITE_COMMIT
    if not (python.exists() and source.exists()):
        sys.exit("the suite is not here: `python3 scripts/outside.py aiokafka-suite` fetches it")
    path = os.pathsep.join(map(str, [PLUGIN.parent, ROOT / ".import"]))
    options = ["--noconftest", "-p", PLUGIN.stem, "-p", "no:cacheprovider", "-ra"]
    os.chdir(source)
    os.execve(python, [str(python), "-m", "pytest", *options, *arguments], {**os.environ, "PYTHONPATH": path})


if __name__ == "__main__":
    main(sys.argv[1:])
