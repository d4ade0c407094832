"""Airflow's own test of a DAG: `python run_dag.py`, in Airflow's environment, with AIRFLOW_HOME and the DAGs' folder set.

Prints the run's state and what each task returned, as JSON in the last line.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys


def main() -> None:
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, stdout=subprocess.DEVNULL)
    path = os.path.join(os.environ["AIRFLOW__CORE__DAGS_FOLDER"], "hourly_views.py")  # noqa: PTH118 - plain texts.
    spec = importlib.util.spec_from_file_location("hourly_views", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run = module.views.test()
    returned = {one.task_id: one.xcom_pull(task_ids=one.task_id) for one in run.get_task_instances()}
    sys.stdout.write(json.dumps({"state": str(run.state), "returned": returned}) + "\n")


if __name__ == "__main__":
    main()
