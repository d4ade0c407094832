"""Print the Python that Sordini's environment is made of: `python3 scripts/choose_python.py`.

Of the Pythons 3.11 or newer in PATH and /usr/bin, the first that was built with profile-guided optimisation: the broker
then needs 6 to 19 % less CPU time. Where none was, or none says so, the first one. `make PYTHON=...` chooses another.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAMES = ("python3", "python3.11", "python3.12", "python3.13")
OLDEST = (3, 11)
BUILD = """import ensurepip, json, sys, sysconfig, venv
print(json.dumps([sys.version_info[:2], sysconfig.get_config_vars()]))"""
ANSWER_SECONDS_MAX = 20

_SPEC = importlib.util.spec_from_file_location(
    "interpreter", Path(__file__).resolve().parents[1] / "broker" / "process" / "interpreter.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
interpreter = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(interpreter)


def main() -> None:
    usable = [(path, variables) for path in candidates() if (variables := build_of(path)) is not None]
    optimised = (path for path, variables in usable if interpreter.is_profile_optimised(variables))
    print(next(optimised, usable[0][0] if usable else "python3"))


def candidates() -> Iterator[str]:
    """Each file once: `python3` is often a link to one of the others."""
    search = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/bin"
    seen = set()
    for name in NAMES:
        for directory in search.split(os.pathsep):
            path = shutil.which(name, path=directory)
            if path is not None and os.path.realpath(path) not in seen:
                seen.add(os.path.realpath(path))
                yield path


def build_of(path: str) -> dict[str, object] | None:
    """What a Python says of its build; None when it is too old, does not run or cannot make environments."""
    try:
        ended = subprocess.run(  # noqa: S603
            [path, "-c", BUILD], check=True, capture_output=True, timeout=ANSWER_SECONDS_MAX, stdin=subprocess.DEVNULL
        )
        version, variables = json.loads(ended.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return variables if tuple(version) >= OLDEST else None


if __name__ == "__main__":
    sys.exit(main())
