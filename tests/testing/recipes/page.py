"""The recipes of docs/testing.md, block by block."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "testing.md"
RECIPES = "\n## Recipes\n"
BLOCK = re.compile(r"^```(?:python|yaml) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = re.compile(r"^pip install (.*)$", re.MULTILINE)

TESTS_OF = {
    "test_kafka_python.py": 2,
    "test_aiokafka.py": 1,
    "test_pytest_asyncio.py": 1,
    "test_confluent_kafka.py": 1,
    "test_registry.py": 1,
    "test_faststream.py": 2,
    "test_unittest.py": 1,
}
"""How many tests each recipe has: of these in every run,"""
LONGER_TESTS_OF = {"test_quixstreams.py": 1, "test_pyspark.py": 2}
"""and of these in `make recipes`."""
GITHUB = ".github/workflows/tests.yml"
GITLAB = ".gitlab-ci.yml"


@cache
def recipes() -> str:
    """The page from its recipes on."""
    return PAGE.read_text(encoding="utf-8").partition(RECIPES)[2]


@cache
def files() -> dict[str, str]:
    """The text of each file that the recipes have, by its path."""
    return dict(BLOCK.findall(recipes()))


def write(directory: Path, *names: str) -> None:
    """Write files of the page as a reader pastes them."""
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files()[name], encoding="utf-8")
