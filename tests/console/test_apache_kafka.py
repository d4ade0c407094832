"""The console beside the newest Apache Kafka: its pages, its changes, and what only a Sordini has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.console.console_process import ConsoleProcess, words
from tests.console.scene import (
    HOSTILE,
    TRANSACTION_TIMEOUT_MS,
    Member,
    commit,
    create,
    produce_hostile,
    produce_transactions,
    until,
)
from tests.outside.java import QUICK_COMPILER, KRaftProcess
from tests.outside.needs import kafka_jars, need_java
from tests.outside.processes import OutsideProcess
from tests.outside.versions import NEWEST_APACHE_KAFKA
from tests.process.test_cli import run_here

SETTINGS: Final = {
    "message.max.bytes": 20_000_000,
    "transaction.max.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftProcess]:
    with KRaftProcess(tmp_path_factory.mktemp("kafka"), SETTINGS) as process:
        create(process.bootstrap, {"orders": 3, "payments": 1}, 1)
        create(process.bootstrap, {"hostile": 1}, 1, **{"max.message.bytes": "20000000"})
        yield process


@pytest.fixture(scope="module")
def console(kafka: KRaftProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(tmp_path_factory.mktemp("console"), kafka.bootstrap) as process:
        yield process


def test_every_page_is_served(console: ConsoleProcess, kafka: KRaftProcess) -> None:
    visitor = console.logged_in()
    commit(kafka.bootstrap, "reports", "orders", {0: 0})
    text = words(visitor.get("/").text)
    assert re.search(r"Apache Kafka, metadata\.version 4\.4", text)
    assert "broker,controller" in text
    pages = ("/topics", "/topic?name=orders", "/topic/records?name=orders", "/topic/configuration?name=orders")
    others = (
        "/topic/consumers?name=orders",
        "/topic/segments?name=orders",
        "/mirrors",
        "/pipelines",
        "/groups",
        "/group?name=reports",
        "/transactions",
        "/users",
        "/quotas",
        "/acls",
    )
    for path in (*pages, *others):
        assert visitor.get(path).status == 200, path
    assert text.count("not reported") == 3, "uptime, CPU time and connections"
    assert "Retention, compaction and starts are known of Sordini's brokers only." in text
    assert "do not report their segments" in words(visitor.get("/topic/segments?name=orders").text)
    assert "no authorizer" in words(visitor.get("/acls").text)
    assert "keeps no history of rebalances" in words(visitor.get("/group/history?name=reports").text)


def test_changes_are_made(console: ConsoleProcess) -> None:
    visitor = console.logged_in()
    assert visitor.change("/topics/create", name="made", partitions="2", replicas="1").status == 303
    answer = visitor.change("/topic/configuration", name="made", key="retention.ms", value="60000", action="set")
    assert "retention.ms is 60000 now." in words(visitor.followed(answer).text)
    assert visitor.change("/topic/partitions", name="made", count="3").status == 303
    answer = visitor.change("/topic/produce", name="made", partition="2", value="the value", headers="a: b")
    assert "the value" in words(visitor.followed(answer).text)
    assert "the value" in words(visitor.get("/topic/records?name=made").text)
    assert visitor.change("/topic/delete", name="made", confirmation="made").status == 303


def test_offsets_are_reset_and_members_removed(console: ConsoleProcess, kafka: KRaftProcess) -> None:
    visitor = console.logged_in()
    commit(kafka.bootstrap, "reset-me", "orders", {0: 0, 1: 0})
    fields = {"name": "reset-me", "target": "to_latest", "topics": "orders"}
    plan = visitor.change("/group/reset/plan", **fields)
    token = re.search(r'name="plan" value="(\w+)"', plan.text)
    assert token is not None, words(plan.text)
    assert visitor.change("/group/reset", **fields, plan=token[1]).status == 303
    for protocol in ("classic", "consumer"):
        member = Member(kafka.bootstrap, f"group-{protocol}", "client-1", ["orders"], group_protocol=protocol)
        try:
            assert member.has_partitions.wait(30)
            page = visitor.get(f"/group?name=group-{protocol}").text
            member_id = re.search(r'<div class="members">.*?<code>([^<]+)</code>', page, re.DOTALL)
            assert member_id is not None
            answer = visitor.change("/group/remove-member", name=f"group-{protocol}", member=member_id[1])
            assert answer.status == 303, words(answer.text)
        finally:
            member.close()


def test_hostile_and_transactional_records_are_shown(console: ConsoleProcess, kafka: KRaftProcess) -> None:
    visitor = console.logged_in()
    produce_hostile(kafka.bootstrap)
    page = visitor.get("/topic/records?name=hostile&start=beginning&limit=100").text
    assert page.count('<tr class="record">') == len(HOSTILE)
    assert "<script>document" not in page
    producer = produce_transactions(kafka.bootstrap)
    try:
        text = words(visitor.get("/topic/records?name=payments&partition=0&records_shown=aborted").text)
        assert "commit marker" in text
        assert "abort marker" in text
        assert "open 0" not in text
        assert "open 0" in words(visitor.get("/topic/records?name=payments&partition=0&records_shown=uncommitted").text)
    finally:
        producer.abort_transaction(30)


class ShareReader(OutsideProcess):
    """A member of a share group, by Java's own client."""

    name = "share-reader"

    def __init__(self, directory: Path, *arguments: str) -> None:
        super().__init__(directory)
        self._arguments = arguments

    def command(self) -> list[str]:
        jars = f"{kafka_jars(NEWEST_APACHE_KAFKA)}/*"
        program = str(Path(__file__).with_name("ShareReader.java"))
        return [need_java(), QUICK_COMPILER, "-cp", jars, program, *self._arguments]

    def is_ready(self) -> bool:
        return "reading" in self.output()


def test_share_groups_have_a_page_with_members_and_partitions_and_say_what_is_not_known(
    console: ConsoleProcess, kafka: KRaftProcess, tmp_path: Path
) -> None:
    visitor = console.logged_in()
    with ShareReader(tmp_path, kafka.bootstrap, "sharers", "orders"):
        until(lambda: "sharers Stable share" in words(visitor.get("/groups").text))
        until(lambda: "orders:2" in words(visitor.get("/group?name=sharers").text))
        text = words(visitor.get("/group?name=sharers").text)
        assert "State Stable Type share Assignor simple Coordinator 1" in text
        assert "Dead letters none kept" in text
        assert "does not tell what is in flight" in text
        assert "an older Sordini, or another broker" in words(visitor.get("/group/history?name=sharers").text)
        page = visitor.get("/group?name=sharers").text
        assert {f'data-row="orders:{number}"' in page for number in range(3)} == {True}
        assert "Remove" not in page, "a member of a share group cannot be removed"
        assert "sharers Stable share" in words(visitor.get("/groups/lags?group=sharers").text)
        settings = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "payments"}
        for name, value in settings.items():
            run_here(kafka.bootstrap, "configs", "set", "--group", "sharers", f"{name}={value}")
        assert re.search(r'href="/topic/records\?name=payments">payments</a>', visitor.get("/group?name=sharers").text)
