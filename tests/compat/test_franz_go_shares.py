"""franz-go's client of share groups (kgo.ShareGroup) against a broker: accept, release, reject, renew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.needs import ROOT, need
from tests.outside.processes import SordiniProcess
from tests.outside.versions import FRANZ_GO_SUITE, share_go_module
from tests.process.test_cli import run_at

SOURCE = Path(__file__).parent / "shares" / "franz" / "main.go"
BUILD_S_MAX = 300
RUN_S_MAX = 120
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 500,
    "offsets.topic.num.partitions": 1,
}


@pytest.fixture(scope="module")
def program() -> Path:
    """Built once, with the modules that `python3 scripts/outside.py franz-go` has fetched."""
    go = shutil.which("go")
    need(go is not None, "Go", "`apt-get install golang-go` installs it")
    assert go is not None
    cache = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    module = Path(cache) / "github.com" / "twmb" / f"franz-go@{FRANZ_GO_SUITE}"
    need(module.is_dir(), f"franz-go {FRANZ_GO_SUITE}", "`python3 scripts/outside.py franz-go` fetches it")
    built = ROOT / ".cache" / "shares" / f"franz-{FRANZ_GO_SUITE}"
    if built.exists() and built.stat().st_mtime > SOURCE.stat().st_mtime:
        return built
    folder = built.parent / "source"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SOURCE, folder)
    (folder / "go.mod").write_text(share_go_module(), encoding="utf-8")
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    subprocess.run([go, "build", "-o", str(built), "."], cwd=folder, env=environment, check=True, timeout=BUILD_S_MAX)
    return built


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    with SordiniProcess(tmp_path_factory.mktemp("franz"), SETTINGS) as made:
        yield made


def test_each_record_is_done_as_its_worker_says(broker: SordiniProcess, program: Path) -> None:
    run_at(broker.bootstrap, "topics", "create", "jobs")
    run_at(broker.bootstrap, "configs", "set", "--group", "go", "share.auto.offset.reset=earliest")
    values = ["accept", "release", "reject", "renew"]
    run_at(broker.bootstrap, "produce", "jobs", standard_input="".join(f"{value}\n" for value in values))
    words = [str(program), broker.bootstrap, "go", "jobs", str(len(values))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [*((value, 1) for value in values), ("release", 2)]
    assert sorted((line["value"], line["delivery"]) for line in lines) == sorted(expected)
    (row,) = json.loads(run_at(broker.bootstrap, "share", "offsets", "go", "--json").stdout)
    assert (row["end_offset"], row["lag"]) == (4, 0)
    history = json.loads(run_at(broker.bootstrap, "groups", "history", "go", "--json").stdout)
    assert history["rebalances"][-1]["causes"][0]["cause"] == "member_left"
