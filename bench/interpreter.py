"""What the benchmark says of the Python that runs it and its brokers."""

from __future__ import annotations

import platform
import sys
import sysconfig
from pathlib import Path

from sordini.broker.process.interpreter import is_profile_optimised


def line() -> str:
    """What the benchmark says first. The brokers are started by the same interpreter."""
    cure = (
        "" if is_optimised() else ": each request costs 6 to 19 % more CPU than it has to (try PYTHON=/usr/bin/python3)"
    )
    return f"interpreter {Path(sys.executable)}, {name()}{cure}"


def name() -> str:
    """The interpreter as the head of a table names it."""
    how = "with" if is_optimised() else "without"
    return f"{platform.python_implementation()} {platform.python_version()} built {how} profile-guided optimisation"


def is_optimised() -> bool:
    """Whether its build says so, or says nothing."""
    return is_profile_optimised(sysconfig.get_config_vars()) is not False
