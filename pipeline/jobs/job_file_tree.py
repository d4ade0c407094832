"""Job files as trees with the line of each value: `cli/common/settings_tree.py`, with the pipeline's errors."""

from __future__ import annotations

from pathlib import Path

from sordini.cli.common import settings_tree
from sordini.cli.common.settings_tree import Node, Section
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job import JobFileError


class JobSection(Section):
    """A mapping of a job file. Every method raises JobFileError."""

    error = JobFileError
    mistakes = (ValueError, PipelineError)


def read_tree(path: Path) -> Node:
    """Read a job file. Raises JobFileError."""
    return settings_tree.read_tree(path, JobFileError)


def line_of(path: Path, *names: str) -> int:
    """The line of a value by its path of names, or of its innermost existing section; 0 if unknown."""
    node = read_tree(path)
    for name in names:
        if not isinstance(node.value, dict) or name not in node.value:
            break
        node = node.value[name]
    return node.line
