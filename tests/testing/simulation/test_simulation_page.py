"""docs/simulation.md stays true: its example finds what the page says, and its tables name what exists."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from sordini.testing import FaultKind, SimulationFailed, simulate

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "simulation.md").read_text()


def test_the_example_of_the_page_finds_the_mistake():
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    example = example.replace(
        "instances=2\n", "instances=2, shrinks=False\n"
    )  # It takes as long as all other tests here.
    assert "shrinks=False" in example
    names: dict[str, Any] = {}
    exec(compile(example, "docs/simulation.md", "exec"), names)
    with pytest.raises(SimulationFailed) as failed:
        names["test_billing"]()
    assert re.search(r"not at rest 400 s after the last fault: orders \[\d+.*\] have no bill", str(failed.value))


def test_the_page_names_every_kind_of_fault_and_no_other():
    section = PAGE.partition("\n## Faults\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [str(kind) for kind in FaultKind]


def test_the_page_names_every_argument():
    section = PAGE.partition("\n## What is called")[2].partition("\n## ")[0]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(inspect.signature(simulate).parameters) | {"seeds"}
