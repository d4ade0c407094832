"""What the programs here share: a JVM with the jars of the original clients, and their properties."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jpype

FLAGS: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
FAILED: Final = 70


def start(log4j: str, jars: Sequence[str]) -> None:
    """The JVM. A thread of ours that fails ends the program: the test reads why in its log."""
    threading.excepthook = _fail
    jpype.startJVM(*FLAGS, f"-Dlog4j.configuration=file:{log4j}", classpath=list(jars))


def properties(pairs: Mapping[str, object]) -> Any:
    made = jpype.JClass("java.util.Properties")()
    for name, value in pairs.items():
        made.put(name, str(value))
    return made


def _fail(failure: threading.ExceptHookArgs) -> None:
    traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(FAILED)  # Java's threads would keep the program alive.
