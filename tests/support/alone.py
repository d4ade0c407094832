"""Functions of tests in a fresh interpreter, for what is counted by the process: allocated bytes, the resident set.

In the process of the tests, what earlier tests left behind and what the threads of their clients do would count, too.
"""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Alone:
    """One child, started with the first call; functions run there one after the other. One that raises ends it.

    Functions, arguments and results are pickled: a function is a module's, and it is found by its name.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.communicate()  # It ends with its input.

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns."""
        if self._child is None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            command = [sys.executable, "-c", "from tests.support.alone import serve; serve()"]
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        pickle.dump((function, args, kwargs), self._child.stdin)
        self._child.stdin.flush()
        assert self._child.stdout.peek(1), "the function failed: its traceback is in the standard error"  # type: ignore[attr-defined]
        return pickle.load(self._child.stdout)  # type: ignore[no-any-return]


def serve() -> None:
    """The child: what is printed goes to standard error."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while sys.stdin.buffer.peek(1):
        function, args, kwargs = pickle.load(sys.stdin.buffer)
        pickle.dump(function(*args, **kwargs), answers)
        answers.flush()


def traced_peak_bytes(function: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> int:
    """The most that Python's allocators had given to the function at once; to be called in a child."""
    tracemalloc.start()
    try:
        function(*args, **kwargs)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def resident_peak_bytes() -> int:
    """The largest resident set that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
