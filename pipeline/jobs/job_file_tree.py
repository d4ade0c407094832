"""Job files as trees with the line of each value: `cli/common/settings_tree.py`, with the pipeline's errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sordini.cli.common import settings_tree
from sordini.cli.common.settings_tree import Node, Section
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job import JobFileError

TREES: Final = (".yaml", ".yml", ".toml")
"""How the names of job files end, and of files with the fields of a schema."""


class JobSection(Section):
    """A mapping of a job file. Every method raises JobFileError."""

    error = JobFileError
    mistakes = (ValueError, PipelineError)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that texts may name."""
        return self._environment

    def function(self, name: str) -> Callable[..., Any] | None:
        """A function that a program gave as a setting; None for anything else."""
        given = self._node.value[name].value if name in self else None
        return given if callable(given) else None


def tree_of(value: Any) -> Node:
    """Settings of a program as a tree; its lines are not known. Paths and times are texts, as in a file."""
    if isinstance(value, Mapping):
        return Node({str(name): tree_of(inner) for name, inner in value.items()}, 0)
    if isinstance(value, list | tuple):
        return Node([tree_of(inner) for inner in value], 0)
    if isinstance(value, Path):
        return Node(str(value), 0)
    return Node(value.isoformat() if hasattr(value, "isoformat") else value, 0)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function for messages, as a job file has it."""
    return f"{function.__module__}:{getattr(function, '__qualname__', type(function).__name__)}"


def read_tree(path: Path) -> Node:
    """Read a job file. Raises JobFileError."""
    return settings_tree.read_tree(path, JobFileError)


def check_by(section: Section, options: Mapping[str, str], read: Callable[[], object]) -> None:
    """Call `read`, and raise its errors with the option's name and line."""
    try:
        read()
    except PipelineError as error:
        said = str(error)
        named = next((name for name in options if said.lower().startswith(f"{name.lower()}:")), "")
        if named:
            section.section("options").wrong(named, f"cannot be: {said[len(named) + 1 :].strip()}")
        section.wrong("options", f"cannot be: {said}")


def check_named(section: Section, check: Callable[[], object]) -> None:
    """Call `check`, and raise its error, which begins with the name of a setting, with the line of that setting."""
    try:
        check()
    except PipelineError as error:
        name, _, problem = str(error).partition(": ")
        section.wrong(name, f"cannot be: {problem}")


def line_of(path: Path, *names: str) -> int:
    """The line of a value by its path of names, or of its innermost existing section; 0 if unknown."""
    node = read_tree(path)
    for name in names:
        if not isinstance(node.value, dict) or name not in node.value:
            break
        node = node.value[name]
    return node.line
