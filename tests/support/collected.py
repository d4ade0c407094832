"""What conftest files do with the tests that pytest has collected: with 14,000 of them, each step counts."""

from __future__ import annotations

import pytest


def of_folder(items: list[pytest.Item], folder: str) -> list[pytest.Item]:
    """Those whose files are below a folder, by its path from the root: "tests/mirror"."""
    return [item for item in items if item.nodeid.startswith(f"{folder}/")]


def leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    """Take tests from those that are run; they are counted as deselected."""
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
