"""The source text of a codec function under construction, with the values it uses; for both codec compilers."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sordini.protocol.declare import EMPTY, Field


class CodecSource:
    """Lines of one function and the namespace it will run in."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._lines: list[str] = []
        self._depth = 1  # Everything but the `def` line is inside the function.
        self._fresh = 0

    def line(self, text: str) -> None:
        """Add a line at the current depth; the `def` line is not indented."""
        self._lines.append("    " * (self._depth if self._lines else 0) + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent what is written inside under `head`; without a head nothing is indented."""
        if head:
            self.line(head)
        self._depth += bool(head)
        yield
        self._depth -= bool(head)

    def fresh(self, stem: str) -> str:
        """A new local name."""
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def name(self, name: str, value: Any) -> str:
        """Bind a value to its own name."""
        known = self._namespace.setdefault(name, value)
        assert known is value, f"two values are called {name}"
        return name

    def constant(self, stem: str, value: Any) -> str:
        """Bind a value to a new name."""
        name = f"{stem}_{len(self._namespace)}"
        self._namespace[name] = value
        return name

    def default(self, field: Field) -> str:
        """The text of a field's default value."""
        return "[]" if field.spec.default is EMPTY else repr(field.spec.default)

    def compiled(self, title: str) -> Callable[..., Any]:
        """Compile the text into the function it defines; tracebacks show its lines."""
        file_name = f"<{title}>"
        text = "\n".join(self._lines) + "\n"
        linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
        before = set(self._namespace)
        exec(compile(text, file_name, "exec"), self._namespace)  # noqa: S102 - generated text.
        (made,) = set(self._namespace) - before - {"__builtins__"}
        function: Callable[..., Any] = self._namespace[made]
        return function
