"""docs/testing.md up to its recipes, pasted block by block into files, as its readers do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sordini.testing import make_kafka
from tests.testing.recipes.page import PAGE, RECIPES
from tests.testing.test_plugin import environment, run_pytest

BLOCK = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("page")
    for name, text in BLOCK.findall(PAGE.read_text(encoding="utf-8").partition(RECIPES)[0]):
        (directory / name).write_text(text)
    return directory


def test_the_first_tests_fail_and_pass_as_the_page_says(files: Path) -> None:
    code, output = run_pytest(files, "test_shop.py")
    assert code == 1
    assert "1 failed, 1 passed" in output
    assert "Produce of topic topic-2 fails with NOT_ENOUGH_REPLICAS, used 1 of 2 times" in output
    shop = files / "shop.py"
    shop.write_text(shop.read_text().replace('"enable.idempotence": False, "retries": 0', '"enable.idempotence": True'))
    code, output = run_pytest(files, "test_shop.py")
    assert code == 0, output


def test_the_other_tests_of_the_page_pass(files: Path) -> None:
    code, output = run_pytest(files, "test_lost_answers.py", "test_clock.py", "test_fenced_member.py")
    assert code == 0, output
    assert "3 passed" in output


def test_records_of_production_are_packed_and_loaded_as_the_page_says(files: Path) -> None:
    pack, describe = re.findall(r"^sordini (topics .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    with make_kafka(topics=["orders"]) as production:
        for name, price in (("alice", 7), ("bob", 12)):
            production.produce("orders", {"name": name, "price": price}, key=name)
        done = run_command(files, *pack.replace("localhost:9092", production.bootstrap_servers).split())
    assert "2 records in orders.pack" in done
    lines = [json.loads(line) for line in run_command(files, *describe.split()).splitlines()]
    assert [(line["key"], line["value"]) for line in lines] == [
        ("al", '{"name": "...", "price": 7}'),
        ("bo", '{"name": "...", "price": 12}'),
    ]
    code, output = run_pytest(files, "test_orders_of_production.py")
    assert code == 0, output
    assert "2 passed" in output


def run_command(directory: Path, *words: str) -> str:
    """What the installed program prints, in a directory."""
    done = subprocess.run(
        [sys.executable, "-c", "from sordini.cli.__main__ import main; main()", *words],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_script_of_unittest_passes(files: Path) -> None:
    done = subprocess.run(
        [sys.executable, "unittest_shop.py"],
        cwd=files,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
