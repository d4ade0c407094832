"""The alert rules and the dashboard of examples/monitoring, by promtool and by what brokers have."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from sordini.broker.metrics.exporter import FAMILIES
from sordini.broker.metrics.families import MetricKind
from sordini.broker.metrics.kafka_families import kafka_families
from tests.outside.needs import need_prometheus

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
OF_PROMETHEUS = {"up"}
NAME = re.compile(r"\b(?:sordini|kafka|process)_\w+|\bup\b")
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"}


def promtool(*words: str) -> str:
    command = [str(need_prometheus("promtool")), *words]
    done = subprocess.run(command, cwd=FOLDER, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> dict[str, Any]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """The title of a panel and its query."""
    for panel in json.loads((FOLDER / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def exported() -> set[str]:
    """All names of samples that a broker has."""
    names = set(PROCESS | OF_PROMETHEUS)
    for family in (*FAMILIES, *kafka_families()):
        ends = ("_bucket", "_sum", "_count") if family.kind is MetricKind.HISTOGRAM else ("",)
        names |= {family.name + end for end in ends}
    return names


def test_promtool_accepts_configuration_and_rules() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "config", "prometheus.yml")


def test_the_cases_of_all_rules_pass() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")


def test_each_rule_is_seen_firing_and_silent_in_a_case() -> None:
    firing, silent = set(), set()
    for case in yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]:
        for check in case["alert_rule_test"]:
            (firing if check["exp_alerts"] else silent).add(check["alertname"])
    assert firing == silent == rules().keys()


def test_rules_and_dashboard_query_what_brokers_export() -> None:
    expressions = [rule["expr"] for rule in rules().values()] + [query for _, query in dashboard_queries()]
    assert len(expressions) > 30
    unknown = {name for text in expressions for name in NAME.findall(text)} - exported()
    assert unknown == set()


def test_panels_of_the_dashboard_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
