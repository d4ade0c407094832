"""What a cluster knows of the mirrors that copy into it, and from it, on the page of mirrors."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from sordini.testing import make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words
from tests.console.scene import commit, until
from tests.mirror.mirror_process import MirrorProcess, settings


def mirrors(visitor: Visitor) -> str:
    page = visitor.get("/mirrors")
    assert page.status == 200, page
    return words(page.text)


def test_a_cluster_without_mirrors_says_so(tmp_path: Path) -> None:
    with make_kafka() as kafka, ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
        assert "No mirror copies into this cluster" in mirrors(console.logged_in())


def test_sources_topics_progress_and_groups_of_a_mirror_are_shown(tmp_path: Path) -> None:
    with make_kafka(topics={"orders": 2}) as east, make_kafka() as central:
        producer = Producer({"bootstrap.servers": east.bootstrap_servers})
        for number in range(100):
            producer.produce("orders", b"order", partition=number % 2)
        assert producer.flush(30) == 0
        commit(east.bootstrap_servers, "billing", "orders", {0: 10, 1: 20})
        plan = settings(central.bootstrap_servers, {"east": east.bootstrap_servers})
        folders = [tmp_path / name for name in ("mirror", "there", "here")]
        for folder in folders:
            folder.mkdir()
        with (
            ConsoleProcess(folders[1], central.bootstrap_servers) as there,
            ConsoleProcess(folders[2], east.bootstrap_servers) as here,
        ):
            visitor = there.logged_in()
            with MirrorProcess(folders[0], plan):
                for line in (
                    "From east",
                    "Mirror runs",
                    "orders east.orders 2 of 2 100 ",
                    "Copies are behind by at most",
                    "billing east.orders:0 10 10",
                    "billing east.orders:1 20 20",
                ):
                    until(lambda line=line: line in mirrors(visitor))
                until(lambda: "A mirror of central copies from here" in mirrors(here.logged_in()))
            assert "From east" in mirrors(visitor), "what it wrote stays when it has stopped"
