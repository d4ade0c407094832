"""What a registry needs of `schemas/registered`: the canonical text, and the verdict on compatibility."""

from __future__ import annotations

from sordini.registry.judging.wire import Task
from sordini.registry.state.registering import Judged
from sordini.schemas.registered.compatibility import incompatibilities
from sordini.schemas.registered.parsing import formatted, parse
from sordini.schemas.registered.types import ParsedSchema


def judge(task: Task) -> Judged:
    """Parse a schema, and compare it with earlier ones. Raises InvalidSchema."""
    parsed = parse(task.source)
    problems = incompatibilities(task.level, parsed, [parse(one) for one in task.earlier])
    if problems:
        problems.append(f"{{compatibility: '{task.level.value}'}}")
    return Judged(_text(parsed, task), tuple(problems))


def _text(parsed: ParsedSchema, task: Task) -> str:
    if task.format:
        return formatted(parsed, task.format)
    return parsed.normalized if task.normalizes else parsed.canonical
