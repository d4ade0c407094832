"""What is fetched for an image is locked with its hash, and known: locks, the Dockerfile's commands, SBOM and audit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts.audit_dependencies import Audit, judged, report
from tests.process.image import LIBRARIES, LIBRARIES_PIPELINE, stages, value

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("broker", "pipeline", "build")
_ENTRY = re.compile(
    r"^([a-z0-9._-]+)==([^ ;]+)( ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


@cache
def locked(name: str) -> dict[str, Version]:
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    entries = _ENTRY.findall(text)
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(entries) == len(lines), "every entry has a version and a hash"
    return {canonicalize_name(library): Version(version) for library, version, _, _ in entries}


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def wanted(name: str) -> list[str]:
    found: list[str] = []
    if name == "build":
        found += project()["build-system"]["requires"]
    else:
        found += project()["project"]["dependencies"]
    if name == "pipeline":
        found += project()["project"]["optional-dependencies"]["spark"]
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_what_pyproject_wants_in_versions_that_it_allows(name: str) -> None:
    for text in wanted(name):
        requirement = Requirement(text)
        version = locked(name).get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked: make lock"
        assert version in requirement.specifier, (
            f"{requirement.name} {version} is not {requirement.specifier}: make lock"
        )


def test_the_broker_and_the_pipeline_have_the_same_versions() -> None:
    pipeline = locked("pipeline")
    assert {name: version for name, version in locked("broker").items() if pipeline.get(name) != version} == {}


def test_pip_fetches_nothing_for_an_image_but_what_is_locked() -> None:
    commands = [
        command
        for stage in stages()
        for instruction in stage
        if instruction.name == "RUN"
        for command in instruction.value.split(" && ")
        if " pip " in command
    ]
    assert len(commands) == 7
    assert [
        one for one in commands if not re.search(r"--require-hashes|--no-index|--no-deps --no-build-isolation", one)
    ] == []
    assert "requirements/broker.lock" in value(LIBRARIES, "RUN")
    assert "requirements/build.lock" in value(LIBRARIES, "RUN")
    assert "requirements/pipeline.lock" in value(LIBRARIES_PIPELINE, "RUN")


def test_no_service_of_the_compose_file_is_privileged_or_unpinned() -> None:
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert len(services) == 6
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.keys() & {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc"}, name
        if service["image"] == "sordini":
            assert "user" not in service, "the image's own, which is not root"
        else:
            assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", service["image"]), name
            assert int(service["user"].split(":")[0]) > 0, name


def test_the_bill_of_materials_lists_every_locked_library(tmp_path: Path) -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nsbom:")[2].partition("\n\n")[0]
    assert "cyclonedx-py requirements requirements/$$image.lock" in recipe
    made = tmp_path / "broker.json"
    command = ["requirements", "requirements/broker.lock", "--pyproject", "pyproject.toml", "--output-file", str(made)]
    subprocess.run([sys.executable, "-m", "cyclonedx_py", *command], cwd=ROOT, check=True, capture_output=True)
    found = json.loads(made.read_text(encoding="utf-8"))
    assert found["metadata"]["component"]["name"] == "sordini"
    assert {one["name"]: Version(one["version"]) for one in found["components"]} == locked("broker")
    assert all(one["purl"].startswith("pkg:pypi/") for one in found["components"])


def answer(*rows: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(rows), "fixes": []})


FINE: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
BAD: dict[str, Any] = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"], "aliases": []}]}
UNKNOWN: dict[str, Any] = {"name": "c", "skip_reason": "not found"}


def test_a_known_vulnerability_fails_the_audit_and_says_what_mends_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = judged(answer(FINE, BAD))
    assert found == Audit(2, 0, ["b 2: PYSEC-1, mended in 3"])
    assert report("x.lock", found) == 1
    assert "x.lock: b 2: PYSEC-1, mended in 3" in capsys.readouterr().out


def test_an_audit_without_a_response_fails_nothing_and_claims_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert judged("") is judged("<html>") is judged("[]") is None
    assert report("x.lock", "no answer") == 0
    assert capsys.readouterr().out == "x.lock: not audited: no answer\n"
    found = judged(answer(FINE, UNKNOWN))
    assert found == Audit(1, 1, [])
    assert report("x.lock", found) == 0
    assert "not audited: 1 that the index does not know" in capsys.readouterr().out


def test_every_commit_is_audited_and_a_finding_fails_it() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make audit-dependencies\naudit=$?\n" in script
    assert "audit != 0" in script.splitlines()[-1]
