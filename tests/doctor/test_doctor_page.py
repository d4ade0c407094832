"""docs/doctor.md, pasted block by block into one shell: each block prints what the page shows behind it.

UPDATE=1 writes what was printed into the page.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.ports import free_port
from tests.support.pasted import reader_environment, shell_session

PAGE = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"
PAIR = re.compile(r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_S_MAX = 60
ADDRESS = "127.0.0.1:9092"
DIRECTORIES = ("well", "away", "secured")
SHOWN = (
    (re.compile(r"cluster [\w-]{22}"), "cluster KPv6hhgeKz9zTSBm2avNxw"),
    (re.compile(r"in \d+ ms, and read\s+again"), "in 9 ms, and read again"),
    (re.compile(r"\S+ free, \w+$", re.MULTILINE), "61 free, ext4"),
    (re.compile(r"(\d+|any number) allowed, \d+ needed"), "1048576 allowed, 5224 needed"),
    (re.compile(r"[\d.]+ [KMGT]?i?B available"), "7.5 GiB available"),
    (re.compile(r"[\d.]+ [KMGT]iB free(, \w+)?"), "61 GiB free, ext4"),
    (re.compile(r"Python [\d.]+, with uvloop"), "Python 3.13.1, with uvloop"),
    (re.compile(r"^sordini: .* has stopped.*\n|^.* has stopped.*\n|^stopped .*\n", re.MULTILINE), ""),
)
"""What differs between machines and runs, and how the page shows it."""
OF_THIS_MACHINE = re.compile(
    r"^  (ok|note|-) +(clock +(synchronised|no time|whether)|interpreter) .*\n|^note: (clock-not-synchronised|interpreter-not-optimised|disk-in-memory)\n"
    r"(?:\n|  .*\n)+?(?=^note|^wrong|^\S)",
    re.MULTILINE,
)


def shown(printed: str, address: str) -> str:
    """As the page shows it."""
    text = printed.replace(address, ADDRESS).replace(address.rpartition(":")[2], "9092")
    for found, instead in SHOWN:
        text = found.sub(instead, text)
    text = OF_THIS_MACHINE.sub("", text)
    return re.sub(r" \(\d notes?\)", "", text)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    environment = reader_environment(NO_COLOR="1")
    yield tmp_path, environment
    for directory in DIRECTORIES:
        stop = ["sordini", "stop", "--override", f"log.dirs={directory}", "--force", "--timeout", "10"]
        subprocess.run(stop, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=BLOCK_S_MAX)


def test_each_block_prints_what_the_page_shows(reader: tuple[Path, dict[str, str]]) -> None:
    directory, environment = reader
    address = f"127.0.0.1:{free_port()}"
    text = PAGE.read_text(encoding="utf-8")
    pairs = PAIR.findall(text)
    assert len(pairs) == 7
    with shell_session(directory, environment) as shell:
        for block, expected in pairs:
            pasted = block.replace(ADDRESS, address).replace(":9092", f":{address.rpartition(':')[2]}")
            printed = shown(shell.paste(pasted, BLOCK_S_MAX), address)
            if os.environ.get("UPDATE"):
                text = text.replace(f"{block}```\n\n```text\n{expected}```", f"{block}```\n\n```text\n{printed}```")
            else:
                assert words(printed) == words(expected), printed
    if os.environ.get("UPDATE"):
        PAGE.write_text(text, encoding="utf-8")


def words(text: str) -> list[str]:
    """Without line breaks: a shorter port may move one."""
    return text.split()
