"""CONTRIBUTING.md's steps for an API and for a key, made in a copy of the tree as they are written there.

A block of `python PATH` is a new file, one of `diff PATH` edits of a file: each group of its lines stands for one place, which
has to be there exactly once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"^```(python|diff) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOMS = [
    "admin",
    "broker",
    "cli",
    "client",
    "console",
    "coordination_store",
    "doctor",
    "mirror",
    "packs",
    "protocol",
    "registry",
    "replication",
    "schemas",
    "storage",
    "system",
    "testing",
    "pipeline",
    "config",
    "docs",
]
FILES = ("__init__.py", "pyproject.toml", "tests/__init__.py", "tests/test_tidy.py", "STYLE.md")
TESTS = ("golden", "support", "reference", "unit/protocol")

ASK_THE_NEW_API = """
import asyncio
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.unit_broker import a_broker

async def main():
    async with a_broker() as broker:
        for broker_id, code in (7, ErrorCode.NONE), (1, ErrorCode.INVALID_REQUEST):
            answer = broker.ask(ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=broker_id))
            assert answer.error_code == code, answer
        rows = broker.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).api_keys
        assert ApiKey.UNREGISTER_BROKER in [row.api_key for row in rows]

asyncio.run(main())
"""
USE_THE_NEW_KEY = """
import asyncio
from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.settings import ConfigError
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from tests.support.unit_broker import a_broker

KEY = "sordini.alter.configs.resources.max"
assert build_config({})[0].alter_configs_resources_max == 10_000
try:
    build_config({KEY: "0"})
    raise AssertionError("0 is below the bound")
except ConfigError as error:
    assert KEY in str(error), error

async def main():
    async with a_broker({KEY: "1"}) as broker:
        for count, code in (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (2, ErrorCode.POLICY_VIOLATION):
            resources = [AlterConfigsResource(resource_type=2, resource_name="a") for _ in range(count)]
            request = IncrementalAlterConfigsRequest(resources=resources)
            answer = await broker.ask_later(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, request)
            assert {row.error_code for row in answer.responses} == {code}, answer

asyncio.run(main())
"""


class Copy:
    """A copy of what the steps touch, with programs that import from it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in (*ROOMS, *(f"tests/{name}" for name in TESTS)):
            shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            if (ROOT / name).exists():
                shutil.copy(ROOT / name, root / name)
        (root / ".import").mkdir()
        (root / ".import" / "sordini").symlink_to(root, target_is_directory=True)

    def follow(self, heading: str) -> None:
        """Make the edits of one section of the page."""
        section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        blocks = BLOCK.findall(section)
        assert blocks, heading
        for kind, name, text in blocks:
            file = self.root / name
            if kind == "python":
                assert not file.exists(), f"{name} exists: another example is needed"
                file.write_text(text, encoding="utf-8")
            else:
                file.write_text(edited(file.read_text(encoding="utf-8"), text), encoding="utf-8")

    def run(self, *arguments: str, **variables: str) -> str:
        """What Python prints in the copy."""
        path = os.pathsep.join([str(self.root / ".import"), str(self.root)])
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")


def edited(text: str, diff: str) -> str:
    """A file after the edits of one block. Raises AssertionError for a place that is not there, or more than once."""
    for edit in diff.rstrip("\n").split("\n\n"):
        lines = edit.split("\n")
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        assert text.count(before) == 1, f"{text.count(before)} times there:\n{before}"
        text = text.replace(before, after)
    return text


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_the_steps_for_an_api_lead_to_one_that_answers(copy: Copy) -> None:
    copy.follow("Adding an API")
    copy.run("-c", ASK_THE_NEW_API)
    golden = "tests/unit/protocol/test_messages_golden.py"
    copy.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", golden, "-k", "64-0", UPDATE="1")
    assert "broker_id" in copy.text("tests/golden/unregister_broker_v00.txt")
    copy.run("-m", "tests.reference")
    assert re.search(r"^\| .*UnregisterBroker.*\| ALTER on the cluster", copy.text("docs/security.md"), re.MULTILINE)
    tidy = "tests/test_tidy.py::test_the_page_of_apis_lists_the_requests_that_are_served"
    copy.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", tidy)


def test_the_steps_for_a_key_lead_to_one_that_is_bounded_documented_and_used(copy: Copy) -> None:
    copy.follow("Adding a configuration key")
    copy.run("-c", USE_THE_NEW_KEY)
    copy.run("-m", "tests.reference")
    row = r"^\| `sordini\.alter\.configs\.resources\.max` \| int \| `10000` \| a whole number of at least 1 \|"
    assert re.search(row, copy.text("docs/configuration.md"), re.MULTILINE)
    assert "| `sordini.alter.configs.resources.max` | 10,000 |" in copy.text("docs/security.md")
    assert "sordini.alter.configs.resources.max=10000" in copy.text("config/server.properties")


@pytest.mark.parametrize("text", ["a\nc\n", "a\nb\na\nb\n"])
def test_an_edit_whose_place_is_not_there_once_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match="times there"):
        edited(text, " a\n-b\n+d\n")
