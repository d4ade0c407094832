"""The end of docs/recovery.md, about moving, pasted block by block into one shell, with a real ZooKeeper."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.outside.ports import free_port
from tests.support.pasted import paste, reader_environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recovery.md"
SECTION = "\n## From one broker to ZooKeeper, and back\n"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_S_MAX = 60


def test_each_block_of_the_page_does_what_it_says(zookeeper: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    text = (
        PAGE.read_text()
        .partition(SECTION)[2]
        .replace("127.0.0.1:9092", address)
        .replace("127.0.0.1:2181", f"{zookeeper}/moving-page")
    )
    # A group that does not wait for more members.
    blocks = BLOCK.findall(text.replace("log.dirs=", "group.initial.rebalance.delay.ms=0\nlog.dirs="))
    environment = reader_environment(SORDINI_BOOTSTRAP=address)
    try:
        outputs = paste(blocks, tmp_path, environment, BLOCK_S_MAX)
    finally:
        stop = ["sordini", "stop", "server.properties", "--force", "--timeout", "10"]
        subprocess.run(stop, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=BLOCK_S_MAX)
    started, moved, refused, on_zookeeper, back = outputs
    assert "1 pear" in started
    assert moved.count("topics with") == 2
    assert "2 topics with" in moved
    assert "can be moved" in moved.splitlines()[1]
    assert re.search(r"was moved to zookeeper:\S+/moving-page/kafka: start with zookeeper.connect", refused)
    assert "\n1 melon\n" in on_zookeeper
    assert not re.search("apples|pear", on_zookeeper), "the group resumes at its committed offset"
    assert re.search(r"Settings +retention.ms=-1", on_zookeeper)
    assert (tmp_path / "data" / "coordination.sqlite.former-1").exists()
    assert all(value in back for value in ("2 apples", "1 pear", "1 melon"))
