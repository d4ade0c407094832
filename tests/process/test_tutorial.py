"""docs/tutorial.md, pasted block by block into one shell, as its readers do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.outside.ports import free_port
from tests.support.pasted import paste, reader_environment

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_S_MAX = 60


def test_each_block_of_the_tutorial_does_what_the_page_says(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    blocks = [block.replace("127.0.0.1:9092", address) for block in BLOCK.findall(TUTORIAL.read_text())]
    assert len(blocks) > 10
    environment = reader_environment(SORDINI_BOOTSTRAP=address)
    try:
        outputs = dict(zip(blocks, paste(blocks, tmp_path, environment, BLOCK_S_MAX), strict=True))
    finally:
        stop = ["sordini", "stop", "server.properties", "--force", "--timeout", "10"]
        subprocess.run(stop, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=BLOCK_S_MAX)

    def block_with(text: str) -> str:
        return next(output for block, output in outputs.items() if text in block)

    assert "is ready" in block_with("serve --daemon")
    assert block_with("--max-messages 2").count("\n") > 2
    assert (
        len(re.findall(r"^orders +\d+ +\d+ +\d+ +0 ", block_with("--exit-at-end\nsordini groups"), re.MULTILINE)) == 3
    )
    assert "nothing was changed" in block_with("--to-earliest\n")
    everything = block_with("--to-earliest --execute")
    assert all(f"\n{value}\n" in everything for value in ("2 apples", "1 pear", "1 melon", "7 plums"))
    assert re.search(r"retention.ms +3600000 +topic", block_with("configs describe"))
    restarted = block_with("dora")
    assert restarted.endswith("\n3 figs\n")
    assert not re.search("apples|pear|melon|plums", restarted)
    assert "orders deleted" in block_with("topics delete")
