"""Transcripts: commands, a line of dashes, their output, an empty line; and so on. UPDATE=1 rewrites the answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

Answer = Callable[[Sequence[str]], Sequence[str]]
"""Runs commands and returns their output."""


def replayed(story: str, answer: Answer) -> str:
    """The transcript with the output of this code."""
    out, pending = list[str](), list[str]()
    lines = iter(story.splitlines())
    for line in lines:
        if line == "----":
            out += ["----", *answer(pending)]
            pending = []
            for _ in iter(lambda: next(lines, ""), ""):
                pass  # The recorded output.
            out.append("")
        else:
            out.append(line)
            if line and not line.startswith("#"):
                pending.append(line)
    assert not pending, "a story ends with its answers"
    return "\n".join(out).rstrip("\n") + "\n"


def assert_as_written(path: Path, answer: Answer) -> None:
    written = path.read_text()
    current = replayed(written, answer)
    if os.environ.get("UPDATE"):
        path.write_text(current)
    else:
        assert current == written
