"""The examples for Airflow and Dagster, by their own test runners, each in its own environment (`make orchestrators`)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.outside.needs import ROOT, need_orchestrator
from tests.pipeline.test_library import KEEP, event, send

pytestmark = pytest.mark.skipif(
    os.environ.get("SORDINI_ORCHESTRATORS") != "all", reason="`make orchestrators` runs them"
)

EXAMPLES = ROOT / "examples"
SECONDS_MAX = 540
JOB = """\
name: views
source: {{topics: [{topic}], bootstrap: '{bootstrap}'}}
decode: {{mode: json, schema: {{fields: {{n: int!, event_time: timestamp!}}}}}}
sink: {{location: tables/views}}
audit: {{counts: counts.jsonl, window: 1 day}}
"""


@pytest.fixture
def home(bootstrap: str, make_topic: Callable[..., str], tmp_path: Path) -> Path:
    """A folder with a job file, whose topic has 30 events and a broken one, and the producer's counts."""
    topic = make_topic(2, configs=KEEP)
    send(bootstrap, topic, [*map(event, range(30)), b"broken"])
    (tmp_path / "views.yaml").write_text(JOB.format(topic=topic, bootstrap=bootstrap))
    window = datetime(2026, 11, 22, tzinfo=UTC).isoformat()
    (tmp_path / "counts.jsonl").write_text(json.dumps({"topic": topic, "window_start": window, "count": 31}) + "\n")
    return tmp_path


def last_line(python: Path, script: str, home: Path, *arguments: str) -> dict[str, Any]:
    """Run a script of this folder in another environment; the JSON that it prints last."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    environment |= {
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES / "airflow"),
        "DAGSTER_HOME": str(home / "dagster"),
        "PYTHONPATH": str(ROOT / ".import"),
        "PYSPARK_PYTHON": str(python),
        "VIEWS_JOB": str(home / "views.yaml"),
    }
    (home / "dagster").mkdir()
    command = [str(python), str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    # Schedulers write log lines behind it.
    found: dict[str, Any] = json.loads(
        next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
    )
    return found


def test_airflow_runs_the_dag_that_loads_audits_and_compacts(home: Path) -> None:
    found = last_line(need_orchestrator("airflow"), "run_dag.py", home)
    assert found == {
        "state": "success",
        "returned": {
            "load_views": {"rows": 30, "dead_letters": 1, "batches": 1},
            "audit_views": 1,
            "compact_views": {"windows": 1, "files_before": 0, "files_after": 0},
        },
    }
    assert DeltaTable(str(home / "tables/views")).to_pyarrow_table().num_rows == 30


def test_dagster_materializes_the_asset_once_and_its_check_passes(home: Path) -> None:
    found = last_line(need_orchestrator("dagster"), "run_assets.py", home, str(EXAMPLES / "dagster"))
    first, second = found["runs"]
    assert first == {"metadata": {"rows": 30, "dead letters": 1, "lag": 0}, "passed": True}
    assert second == {"metadata": {"rows": 0, "dead letters": 0, "lag": 0}, "passed": True}
    assert found["upkeep"]
    assert DeltaTable(str(home / "tables/views")).to_pyarrow_table().num_rows == 30
