"""Which Python runs the benchmark and its brokers, and whether it was built with profile-guided optimisation."""

from __future__ import annotations

import platform
import sys
import sysconfig
from pathlib import Path

_DEBIAN = Path("/etc/debian_version")


def line() -> str:
    """What the benchmark says first. The brokers are started by the same interpreter."""
    cure = "" if is_optimised() else ": each request costs more CPU than it has to (try PYTHON=/usr/bin/python3)"
    return f"interpreter {Path(sys.executable)}, {name()}{cure}"


def name() -> str:
    """The interpreter as the head of a table names it."""
    how = "with" if is_optimised() else "without"
    return f"{platform.python_implementation()} {platform.python_version()} built {how} profile-guided optimisation"


def is_optimised() -> bool:
    return optimised(
        config_args=str(sysconfig.get_config_var("CONFIG_ARGS")),
        is_systems_own=_DEBIAN.exists() and sys.base_prefix == "/usr",
    )


def optimised(*, config_args: str, is_systems_own: bool) -> bool:
    """From how it was configured; packages of Debian and Ubuntu call the target profile-opt without saying so there."""
    return is_systems_own or "--enable-optimizations" in config_args
