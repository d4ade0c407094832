"""A store of a newer Sordini is refused at the start, and nothing is written to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from kazoo.client import KazooClient

from tests.outside.processes import SordiniProcess

NEWER = b'{"version":1,"format":2}'
REFUSAL = "the coordination store has format 2 (/sordini), and this version of Sordini knows formats up to 1"


def refused(tmp_path: Path, overrides: dict[str, object]) -> None:
    process = SordiniProcess(tmp_path / "refused", overrides)
    process.launch()
    assert process.wait_for_exit(20) == 1, process.tail()
    (line,) = process.output().splitlines()
    assert line.startswith(f"sordini: {REFUSAL}")


def test_a_newer_zookeeper_tree_is_refused_and_not_touched(zookeeper: str, tmp_path: Path) -> None:
    chroot = f"/{uuid4().hex}"
    client = KazooClient(hosts=zookeeper)
    client.start(timeout=20)
    try:
        client.create(f"{chroot}/sordini", NEWER, makepath=True)
        refused(tmp_path, {"zookeeper.connect": f"{zookeeper}{chroot}"})
        assert client.get_children(chroot) == ["sordini"]
    finally:
        client.stop()
        client.close()


def test_a_newer_embedded_store_is_refused_and_an_old_one_without_the_node_gets_it(
    start_sordini: Callable[..., SordiniProcess], tmp_path: Path
) -> None:
    broker = start_sordini()
    broker.stop()
    file = broker.data_directory / "coordination.sqlite"
    with sqlite3.connect(file) as database:
        database.execute("DELETE FROM node WHERE path = '/sordini'")
    database.close()
    broker.start()
    broker.stop()
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT data FROM node WHERE path = '/sordini'").fetchall() == [
            (b'{"version":1,"format":1}',)
        ]
        database.execute("UPDATE node SET data = ? WHERE path = '/sordini'", (NEWER,))
    database.close()
    refused(tmp_path, {"log.dirs": broker.data_directory})
