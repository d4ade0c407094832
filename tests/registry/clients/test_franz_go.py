"""franz-go's client of a registry and its serializer (`pkg/sr`), against the registry of the test kit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.outside import has_go
from sordini.testing import make_kafka
from tests.outside.needs import need
from tests.outside.versions import FRANZ_GO_REGISTRY, GO, registry_go_module

PROGRAM = Path(__file__).with_name("programs") / "registry_test.go"
OFFLINE = {
    "GOFLAGS": "-mod=mod",
    "GOPROXY": "off",
    "GONOSUMDB": "*",
    "GONOSUMCHECK": "1",
    "GOSUMDB": "off",
    "GOTOOLCHAIN": "local",
}


def test_the_client_registers_finds_compares_and_deletes(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None or not has_go():
        pytest.skip(f"there is no Go {GO} or newer")
    cache = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    module = Path(cache) / "github.com" / "twmb" / "franz-go" / "pkg" / f"sr@{FRANZ_GO_REGISTRY}"
    need(module.is_dir(), f"franz-go's pkg/sr {FRANZ_GO_REGISTRY}", "`python3 scripts/outside.py franz-go` fetches it")
    shutil.copy(PROGRAM, tmp_path)
    (tmp_path / "go.mod").write_text(registry_go_module())
    command = [go, "test", "-count=1", "-v", "-timeout=120s", "."]
    with make_kafka(registry=True) as kafka:
        environment = {**os.environ, **OFFLINE, "REGISTRY": kafka.registry.url}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("--- PASS: ") == PROGRAM.read_text().count("\nfunc Test") == 5
