"""Dagster's own runner of assets: `python run_assets.py FOLDER`, in Dagster's environment; FOLDER has views.py.

Materializes the asset twice with its check, runs the job of upkeep, and prints what came of it as JSON in the last line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import dagster


def main(folder: str) -> None:
    sys.path.insert(0, folder)
    import views

    instance = dagster.DagsterInstance.ephemeral()
    runs: list[dict[str, Any]] = []
    for _ in range(2):
        done = dagster.materialize([views.views, views.no_row_is_missing_or_there_twice], instance=instance)
        [made] = done.asset_materializations_for_node("views")
        [check] = done.get_asset_check_evaluations()
        metadata = {name: value.value for name, value in made.metadata.items() if name != "table"}
        runs.append({"metadata": metadata, "passed": check.passed})
    upkeep = views.definitions.resolve_job_def("upkeep").execute_in_process(instance=instance)
    sys.stdout.write(json.dumps({"runs": runs, "upkeep": upkeep.success}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
