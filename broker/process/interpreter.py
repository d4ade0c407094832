"""Whether the Python that runs the broker was built with profile-guided optimisation.

A build without it needs 6 to 19 % more CPU time for the same requests. Python does not say how it was built; these are
the signs in what its `configure` left behind (`sysconfig.get_config_vars`):

    CONFIG_ARGS has --enable-optimizations     optimised: the official images, conda, Fedora, Arch, Alpine
    a CFLAGS variable has -fprofile-use        optimised: by hand
    PGO_PROF_USE_FLAG is empty, and
    PGO_PROF_GEN_FLAG is not                   optimised: Debian and Ubuntu build with `make profile-opt` and remove
                                               the flag from the file
    none of these                              not optimised
    CONFIG_ARGS or the flags are missing       unknown: Windows, another compiler

PGO_PROF_USE_FLAG alone says nothing: `configure` writes it for every build with gcc or clang.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sordini.replication.ports import Logger

INTERPRETER_CHECK_S = 5.0
"""When a broker checks how its Python was built: the first answers do not wait for that."""

_OPTION = re.compile(r"--(enable|disable)-optimizations(?:=(\w+))?")
_USED_FLAG = re.compile(r"-fprofile(?:-instr)?-use")
_FLAGS = ("CFLAGS", "CFLAGS_NODIST", "CONFIGURE_CFLAGS", "CONFIGURE_CFLAGS_NODIST", "PY_CFLAGS", "PY_CORE_CFLAGS")


def is_profile_optimised(variables: Mapping[str, object]) -> bool | None:
    """What the build's variables say; None where they do not."""
    arguments = variables.get("CONFIG_ARGS")
    use, generate = variables.get("PGO_PROF_USE_FLAG"), variables.get("PGO_PROF_GEN_FLAG")
    if any(_USED_FLAG.search(str(variables.get(name, ""))) for name in _FLAGS):
        return True
    if not isinstance(arguments, str):
        return None
    options: list[tuple[str, str]] = _OPTION.findall(arguments)
    if options:
        kind, value = options[-1]  # As configure reads them.
        return kind == "enable" and value != "no"
    if not generate:
        return None
    return not use


def report_interpreter(log: Logger) -> None:
    """Say once that another build of Python would need less CPU time, where this is known."""
    import sysconfig  # Late: the start does not need it.

    if is_profile_optimised(sysconfig.get_config_vars()) is False:
        log.info(
            "Python was not configured with --enable-optimizations: a build with profile-guided optimisation needs "
            "6 to 19 % less CPU time",
            python=sys.executable,
        )
