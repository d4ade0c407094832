"""The notebook of the examples, run from top to bottom in a kernel of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.outside.needs import ROOT, need_java

NOTEBOOK = ROOT / "examples" / "notebook" / "topic-to-table.ipynb"
SECONDS_MAX = 400


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_notebook_runs_from_top_to_bottom_and_draws_its_plot(tmp_path: Path) -> None:
    need_java()
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(
        notebook, timeout=SECONDS_MAX, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs: list[Any] = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs if output.get("name") == "stdout")
    assert "batch 0 is next" in printed
    assert "lag: [0, 0, 0]" in printed
    assert "0 batches" in printed
    assert "read without Spark:" in printed
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1


def test_the_notebook_in_the_repository_has_no_output() -> None:
    """Outputs have paths and times of the machine that ran it."""
    import json

    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
