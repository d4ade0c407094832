"""docs/queues.md: its work queue, pasted block by block into one shell, and its tests, as its readers run them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.outside.ports import free_port
from tests.support.pasted import reader_environment, shell_session
from tests.testing.test_plugin import run_pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "queues.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TESTS = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_S_MAX = 90
QUICK = "offsets.topic.num.partitions=1\nshare.coordinator.state.topic.num.partitions=1\nlog.dirs=data\n"


@pytest.mark.slow
def test_the_work_queue_of_the_page_works(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    text = PAGE.read_text(encoding="utf-8").replace("127.0.0.1:9092", address).replace("log.dirs=data\n", QUICK)
    begun, worked = BLOCK.findall(text)
    environment = reader_environment(SORDINI_BOOTSTRAP=address)
    try:
        with shell_session(tmp_path, environment) as shell:
            shell.paste(begun, BLOCK_S_MAX)
            said = shell.paste(worked, BLOCK_S_MAX)
            assert sorted(re.findall(r"^done: (.*)$", said, re.MULTILINE)) == ["resize 1", "resize 2", "resize 4"]
            assert "not possible: break 3" in said
            assert re.search(r"^Type +share$", said, re.MULTILINE), said
            assert re.search(r"^jobs +0 +\d +4 +0 +\d$", said, re.MULTILINE), said
    finally:
        stop = ["sordini", "stop", "server.properties", "--force", "--timeout", "10"]
        subprocess.run(stop, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=BLOCK_S_MAX)


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    ((name, text),) = TESTS.findall(PAGE.read_text(encoding="utf-8"))
    (tmp_path / name).write_text(text)
    code, output = run_pytest(tmp_path, name)
    assert code == 0, output
    assert "3 passed" in output
