"""Debian's Prometheus, scraping brokers each second."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.outside.needs import need_prometheus
from tests.outside.ports import free_port
from tests.outside.processes import OutsideProcess


class PrometheusProcess(OutsideProcess):
    """One server on loopback with its data in the directory; the job is `sordini`, as in examples/monitoring."""

    name = "prometheus"

    def __init__(self, directory: Path, ports: Sequence[int]) -> None:
        super().__init__(directory)
        self.port = free_port()
        targets = [f"127.0.0.1:{port}" for port in ports]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "sordini", "static_configs": [{"targets": targets}]}],
        }
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))

    def command(self) -> list[str]:
        return [
            str(need_prometheus()),
            f"--config.file={self.directory}/prometheus.yml",
            f"--storage.tsdb.path={self.directory}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now; an expression that is wrong fails the test with what Prometheus says."""
        words = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{words}", timeout=20) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as refusal:
            raise AssertionError(f"{expression}: {refusal.read().decode()}") from None
        assert found["status"] == "success", found
        result: list[dict[str, Any]] = found["data"]["result"]
        return result
