"""docs/consumer-groups.md, pasted block by block into one shell: a group in use is moved to the other protocol and back."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside.ports import free_port
from tests.support.pasted import reader_environment, shell_session

PAGE = Path(__file__).resolve().parents[2] / "docs" / "consumer-groups.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_S_MAX = 60
QUICK = """group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=200
offsets.topic.num.partitions=1
log.dirs=data
"""


def members(printed: str) -> dict[str, str]:
    """Of the last description, the member's client and what it is assigned."""
    return dict(re.findall(r"^\S+ +- +(\w+) .* orders:([\d,]+)$", printed, re.MULTILINE))


def kind(printed: str) -> str:
    found = re.search(r"^Type +(\w+)$", printed, re.MULTILINE)
    assert found is not None, printed
    return found[1]


def test_a_reader_writes_each_line_in_one_piece_so_that_those_of_others_are_not_within_it() -> None:
    """Also where Python writes unbuffered, as in many containers. A socket of datagrams shows each piece."""
    text = PAGE.read_text(encoding="utf-8")
    (say,) = re.findall(r"^def say.*?(?=\n\n\n)", text, re.MULTILINE | re.DOTALL)
    assert "print(" not in BLOCK.findall(text)[1], "lines are said"
    pieces, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with pieces, writer:
        program = f"import sys\n{say}\nsay('ann', 'has', 'orders-0')\nsay('ann', 'read', 'fig')\n"
        command = [sys.executable, "-u", "-c", program]
        subprocess.run(command, stdout=writer, check=True, timeout=BLOCK_S_MAX)
        pieces.setblocking(False)
        assert [pieces.recv(1000), pieces.recv(1000)] == [b"ann has orders-0\n", b"ann read fig\n"]


@pytest.mark.slow
def test_a_group_in_use_is_moved_there_and_back_as_the_page_says(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    text = PAGE.read_text(encoding="utf-8").replace("127.0.0.1:9092", address).replace("log.dirs=data\n", QUICK)
    settings, begun, mixed, moved, back, ended = BLOCK.findall(text)
    environment = reader_environment(SORDINI_BOOTSTRAP=address)

    def said() -> str:
        log = tmp_path / "readers.log"
        return log.read_text(encoding="utf-8") if log.exists() else ""

    try:
        with shell_session(tmp_path, environment, said) as shell:
            assert re.search(r"consumer.session.timeout.ms +60000 +group", shell.paste(settings, BLOCK_S_MAX))
            described = shell.paste(begun, BLOCK_S_MAX)
            assert (kind(described), set(members(described))) == ("classic", {"ann", "ben"})
            described = shell.paste(mixed, BLOCK_S_MAX)
            assert (kind(described), set(members(described))) == ("consumer", {"ben", "carl"})
            described = shell.paste(moved, BLOCK_S_MAX)
            assert (kind(described), set(members(described))) == ("consumer", {"carl", "dora"})
            described = shell.paste(back, BLOCK_S_MAX)
            assert (kind(described), set(members(described))) == ("classic", {"emma", "fred"})
            assert sorted(",".join(members(described).values()).split(",")) == list("012345")
            read = re.findall(r"^ +\d+ (\w+)$", described, re.MULTILINE)
            assert read == ["apple", "fig", "melon", "pear", "plum"]
            assert "has stopped" in shell.paste(ended, BLOCK_S_MAX)
    finally:
        stop = ["sordini", "stop", "server.properties", "--force", "--timeout", "10"]
        subprocess.run(stop, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=BLOCK_S_MAX)
