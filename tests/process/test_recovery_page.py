"""docs/recovery.md up to its section about moving, pasted block by block into one shell, with a real ZooKeeper and a real broker.

`zkServer.sh`, which comes with ZooKeeper and not with Apache Kafka's jars, is a script of this test that starts and
stops the same program.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from sordini.replication.controller.machine.restored_epochs import LEADER_EPOCH_RAISE
from tests.outside.java import SHORT_LIVED, ZOOKEEPER_CLASS, java_command
from tests.outside.ports import free_port
from tests.outside.versions import APACHE_KAFKA
from tests.process.test_store_migration import SECTION
from tests.support.pasted import reader_environment, shell_session

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recovery.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_S_MAX = 90
EVERYTHING = bool(os.environ.get("SORDINI_MIXED"))
STATE = "/kafka/brokers/topics/orders/partitions/0/state"
LOST = "coordination store does not have this cluster's tree"
SCRIPT = """#!/bin/sh
case $1 in
start)
    setsid {java} "$2" >> zookeeper.log 2>&1 < /dev/null &
    echo $! > zookeeper.pid ;;
stop)
    kill "$(cat zookeeper.pid)"
    while kill -0 "$(cat zookeeper.pid)" 2> /dev/null; do sleep 0.02; done
    rm zookeeper.pid ;;
esac
"""


class Shell:
    """A directory, and a shell in it into which the page's blocks are pasted."""

    def __init__(self, directory: Path, opened: ExitStack) -> None:
        self.directory = directory
        self.zookeeper, self.broker = (f"127.0.0.1:{free_port()}" for _ in range(2))
        programs = directory / "programs"
        programs.mkdir()
        flags = [*SHORT_LIVED, "-Xmx256m", "-Dzookeeper.forceSync=no", "-Dzookeeper.admin.enableServer=false"]
        java = java_command(ZOOKEEPER_CLASS, [], APACHE_KAFKA, flags)
        (programs / "zkServer.sh").write_text(SCRIPT.format(java=shlex.join(java)), encoding="utf-8")
        (programs / "zkServer.sh").chmod(0o755)
        path = os.pathsep.join([str(programs), reader_environment()["PATH"]])
        self.environment = reader_environment(PATH=path, SORDINI_BOOTSTRAP=self.broker)
        self._session = opened.enter_context(shell_session(directory, self.environment, self.diagnosis))

    def text(self) -> str:
        """The page, for this directory: free ports, and other waits.

        Sessions end sooner, groups wait for no more members, and ZooKeeper has time for its start.
        """
        found = PAGE.read_text(encoding="utf-8").partition(SECTION)[0]
        found = found.replace("127.0.0.1:9092", self.broker).replace("127.0.0.1:2181", self.zookeeper)
        found = found.replace("clientPort=2181", f"clientPort={self.zookeeper.partition(':')[2]}")
        found = found.replace("tickTime=2000", "tickTime=500")
        found = found.replace(
            "session.timeout.ms=6000", "session.timeout.ms=1500\nzookeeper.connection.timeout.ms=60000"
        )
        groups = "offsets.topic.num.partitions=3\ngroup.initial.rebalance.delay.ms=0\n"
        return found.replace("factor=1\n", f"factor=1\n{groups}")

    def run(self, block: str) -> str:
        """What a block prints. One that fails, or does not end, fails the test with the ends of all logs."""
        return self._session.paste(block, BLOCK_S_MAX)

    def diagnosis(self) -> str:
        """The ends of the programs' logs."""
        logs = sorted([*self.directory.glob("*.log"), *self.directory.glob("*/sordini.log")])
        return "\n".join(f"--- {log}\n{log.read_text(encoding='utf-8', errors='replace')[-3_000:]}" for log in logs)

    def log(self) -> str:
        return (self.directory / "data" / "sordini.log").read_text(encoding="utf-8")

    def tree(self) -> set[str]:
        """The first names in ZooKeeper, its own left out."""
        with self._client() as client:
            return set(client.get_children("/")) - {"zookeeper"}

    def epoch(self, new: int | None = None) -> int:
        """The leader epoch of orders-0 in ZooKeeper, which may be set."""
        with self._client() as client:
            state = json.loads(client.get(STATE)[0])
            if new is not None:
                client.set(STATE, json.dumps({**state, "leader_epoch": new}).encode())
            return int(state["leader_epoch"])

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        client = KazooClient(hosts=self.zookeeper, timeout=10)
        client.start(timeout=20)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def close(self) -> None:
        stop = 'sordini stop server.properties --force --timeout 10; kill -9 "$(cat zookeeper.pid)"'
        subprocess.run(["sh", "-c", stop], cwd=self.directory, env=self.environment, capture_output=True, check=False)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with ExitStack() as opened:
        shell = Shell(tmp_path, opened)
        opened.callback(shell.close)
        yield shell


def until(condition: Callable[[], bool], shell: Shell, what: str) -> None:
    """Wait for what a program is about to do; in vain, it fails the test with what all programs have said."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"{what}: waited in vain\n{shell.diagnosis()}"
        time.sleep(0.02)


def has(printed: str, *others: str) -> bool:
    return all(f"{value}\n" in printed for value in ("2 apples", "1 pear", "1 melon", *others))


def lose_and_restore(shell: Shell, lose: str, restore: str) -> str:
    """What the restored cluster has, after a loss in which the broker was watched."""
    shell.run(lose)
    until(lambda: LOST in shell.log(), shell, "the broker names the cause")
    assert shell.tree() == set(), "nothing is written into the empty tree"
    restored = shell.run(restore)
    assert has(restored, "3 plums")
    assert not re.search("apples|pear", restored.partition("every partition")[2]), (
        "the group resumes at its committed offset"
    )
    assert shell.log().count(LOST) == 1
    assert shell.log().count("coordination store has this cluster's tree again") == 1
    return restored


@pytest.mark.slow
def test_brokers_serve_on_while_zookeeper_has_lost_its_data_and_register_once_it_is_restored(shell: Shell) -> None:
    begin, copy, _, lose, restore, *_ = BLOCK.findall(shell.text())
    shell.run(begin)
    shell.run(copy)
    lose_and_restore(shell, lose, restore)


@pytest.mark.skipif(not EVERYTHING, reason="six starts of ZooKeeper and ten of brokers: with SORDINI_MIXED=all")
def test_each_recipe_of_the_page_brings_back_what_it_says(shell: Shell) -> None:
    begin, copy, export, lose, restore, restore_export, orphans, directory_copy, directory, everything = BLOCK.findall(
        shell.text()
    )
    assert "1 pear" in shell.run(begin)
    shell.run(copy)
    shell.run("sordini stop server.properties")
    shell.epoch(7)  # As after some changes of leaders since the copy was made.
    shell.run("sordini serve server.properties --daemon")
    assert "2 topics with 6 partitions" in shell.run(export)
    assert "4 figs" in lose_and_restore(shell, lose, restore)
    until(lambda: shell.epoch() == LEADER_EPOCH_RAISE, shell, "the leader epoch that was set back is raised")
    assert "orders-0 is in leader epoch 7 here, and 0 in the coordination store: its data is older" in shell.log()
    refused = shell.run(restore_export)
    assert re.search(r"is not its tree: it holds no cluster, /cluster/id is not there\. Wrong chroot, or rest", refused)
    assert has(shell.run(orphans), "3 plums", "4 figs")
    shell.run(directory_copy)
    for block in (directory, everything):
        assert has(shell.run(block), "3 plums", "4 figs")
