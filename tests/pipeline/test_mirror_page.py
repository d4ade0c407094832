"""docs/mirror.md: two clusters, one, Spark, pasted block by block into one shell."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.outside.needs import need_java
from tests.outside.ports import free_port
from tests.support.pasted import paste, reader_environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mirror.md"
SECTION = re.compile(r"^## Two clusters, one, Spark$(.*?)^## ", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_S_MAX = 150
PORTS = ("9092", "9192", "9292")
SPARK = 3
"""The block that reads the copies."""
SITES = ("central", "east", "west")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the blocks; what they start is stopped though one fails."""
    yield reader_environment()
    for name in ("mirror", *SITES):
        with suppress(OSError, ValueError):  # It has ended, or was never started.
            os.kill(int((tmp_path / f"{name}.pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("with_spark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_two_clusters_are_copied_into_one_and_read_by_spark_as_the_page_says(
    tmp_path: Path, shell: dict[str, str], *, with_spark: bool
) -> None:
    """Without Spark the fourth block is left out, which takes as long as all the others."""
    section = SECTION.search(PAGE.read_text())
    assert section is not None
    blocks = BLOCK.findall(section[1])
    assert len(blocks) == 5
    if with_spark:
        need_java()
    else:
        del blocks[SPARK]
    for port in PORTS:
        fresh = str(free_port())
        blocks = [re.sub(rf"\b{port}\b", fresh, block) for block in blocks]
    outputs = paste(blocks, tmp_path, shell, BLOCK_S_MAX)
    copied, table = outputs[SPARK - 1], outputs[SPARK]
    for alias in ("east", "west"):
        assert re.search(rf"^{alias} +page_views +{alias}\.page_views +2 +2 +0 +(\S+Z|-)$", copied, re.MULTILINE)
        if with_spark:
            assert len(re.findall(rf"\b{alias}\.page_views ", table)) == 3
    assert re.search(r"^sordini: west: [\d,]+ records copied", (tmp_path / "mirror.log").read_text(), re.MULTILINE)
