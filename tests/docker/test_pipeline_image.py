"""The pipeline's image takes records of a broker in another container to a table on a volume."""

from __future__ import annotations

from pathlib import Path

from tests.docker.engine import Engine
from tests.docker.test_one_broker import CONFINED, start

JOB = """
name: views
source:
  topics: [page_views]
decode:
  mode: json
  schema: {fields: {event_id: string!, event_time: timestamp!, page: string!}}
sink:
  location: /tables/views
"""
VIEW = '{"event_id": "1", "event_time": "2026-11-22T08:00:00Z", "session_id": "s", "page": "/home"}'
ROWS = "import deltalake; print(deltalake.DeltaTable('/tables/views').to_pandas()['page'].tolist())"


def test_a_job_in_a_container_loads_a_topic_into_a_table_once(engine: Engine, source: Path) -> None:
    jobs = source / "jobs"
    jobs.mkdir()
    (jobs / "views.yaml").write_text(JOB, encoding="utf-8")
    engine.docker("network", "create", "shop")
    start(engine, "--network", "shop", "-e", "SORDINI_ADVERTISED_HOST=broker")
    engine.docker("exec", "broker", "sordini", "topics", "create", "page_views", "--partitions", "2")
    engine.run("bash", "-c", f"echo '{VIEW}' | docker exec -i broker sordini produce page_views")
    image = ["--rm", "--network", "shop", "-e", "SORDINI_BOOTSTRAP=broker:9092", *CONFINED, "--tmpfs", "/tmp"]
    volumes = ["-v", f"{jobs}:/jobs:ro", "-v", "tables:/tables"]
    # A second load finds nothing new.
    for _ in range(2):
        engine.docker("run", *image, *volumes, "sordini-pipeline", "load", "/jobs/views.yaml")
    rows = engine.docker("run", *image, *volumes, "--entrypoint", "python", "sordini-pipeline", "-c", ROWS)
    assert rows.endswith("['/home']")
