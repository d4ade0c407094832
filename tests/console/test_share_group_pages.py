"""Changes of a share group on its pages, by requests as a browser sends them: a plan, then its confirmation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ShareConsumer

from sordini.testing import Kafka, make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words
from tests.console.scene import until
from tests.process.test_cli import run_here

GROUP = "workers"
FIELDS = {"name": GROUP, "target": "to_earliest", "topics": "orders"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(topics={"orders": 2}) as cluster:
        cluster.produce("orders", ["a", "b", "c"])
        yield cluster


@pytest.fixture(scope="module")
def console(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(tmp_path_factory.mktemp("console"), kafka.bootstrap_servers) as process:
        yield process


@pytest.fixture
def visitor(console: ConsoleProcess, kafka: Kafka) -> Visitor:
    """Logged in; the group has done all records of `orders`."""
    set_offset(kafka, GROUP, 3)
    return console.logged_in()


def set_offset(kafka: Kafka, group: str, offset: int) -> None:
    words = ("share", "reset", group, "--topic", "orders:0", "--to-offset", str(offset), "--execute")
    run_here(kafka.bootstrap_servers, *words)


def starts(kafka: Kafka, group: str = GROUP) -> dict[int, int]:
    rows = json.loads(run_here(kafka.bootstrap_servers, "share", "offsets", group, "--json").stdout)
    return {row["partition"]: row["start_offset"] for row in rows}


def is_audit_line(line: str) -> bool:
    return all(part in line for part in ("console change", "reset offsets", "outcome=done", f"group={GROUP}"))


def token_of(page: str) -> str:
    found = re.search(r'name="plan" value="(\w+)"', page)
    assert found is not None, words(page)
    return found[1]


def test_the_start_offsets_of_a_share_group_are_set_after_a_plan_that_was_seen(
    visitor: Visitor, kafka: Kafka, console: ConsoleProcess
) -> None:
    form = visitor.get(f"/group/reset?name={GROUP}").text
    assert "Reset offsets" in visitor.get(f"/group?name={GROUP}").text
    assert 'value="to_earliest"' in form
    assert 'value="shift_by"' not in form
    plan = visitor.change("/group/reset/plan", **FIELDS | {"topics": "orders:0"})
    assert "orders:0 3 0" in words(plan.text)
    assert "also those that were done" in words(plan.text)
    assert starts(kafka)[0] == 3, "a plan changes nothing"
    fields = FIELDS | {"topics": "orders:0"}
    done = visitor.change("/group/reset", **fields, plan=token_of(plan.text))
    assert (done.status, starts(kafka)[0]) == (303, 0)
    until(lambda: any(is_audit_line(line) for line in console.output().splitlines()))


def test_without_the_token_of_its_session_nothing_is_planned_and_nothing_is_set(visitor: Visitor, kafka: Kafka) -> None:
    token = token_of(visitor.change("/group/reset/plan", **FIELDS).text)
    assert visitor.post("/group/reset/plan", FIELDS).status == 403
    assert visitor.post("/group/reset", FIELDS | {"plan": token}).status == 403
    assert starts(kafka)[0] == 3


def test_a_plan_that_is_another_one_by_now_sets_nothing(visitor: Visitor, kafka: Kafka) -> None:
    fields = FIELDS | {"topics": "orders:0", "target": "to_latest"}
    token = token_of(visitor.change("/group/reset/plan", **fields).text)
    kafka.produce("orders", ["d"], partition=0)
    answer = visitor.change("/group/reset", **fields, plan=token)
    assert "nothing was changed" in words(answer.text)
    assert starts(kafka)[0] == 3


def test_the_plan_of_one_group_is_none_of_another(visitor: Visitor, kafka: Kafka) -> None:
    set_offset(kafka, "others", 3)
    token = token_of(visitor.change("/group/reset/plan", **FIELDS).text)
    answer = visitor.change("/group/reset", **FIELDS | {"name": "others"}, plan=token)
    assert "nothing was changed" in words(answer.text)
    assert starts(kafka, "others")[0] == 3


def test_what_only_committed_offsets_can_be_reset_to_is_refused(visitor: Visitor) -> None:
    answer = visitor.change("/group/reset/plan", **FIELDS | {"target": "shift_by", "value": "-1"})
    assert answer.status == 400
    assert "allowed is one of to_latest" in words(answer.text)


def test_a_share_group_with_members_is_not_reset(visitor: Visitor, kafka: Kafka) -> None:
    set_offset(kafka, "busy", 3)
    worker = ShareConsumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "busy", "log_level": 0})
    try:
        worker.subscribe(["orders"])
        until(lambda: worker.poll(0.1) is not None and "busy Stable share" in words(visitor.get("/groups").text))
        answer = visitor.change("/group/reset/plan", **FIELDS | {"name": "busy"})
        assert answer.status == 409
    finally:
        worker.close()


def test_a_read_only_console_offers_no_reset_of_a_share_group(kafka: Kafka, tmp_path: Path) -> None:
    set_offset(kafka, GROUP, 3)
    with ConsoleProcess(tmp_path, kafka.bootstrap_servers, "--read-only") as console:
        visitor = console.logged_in()
        assert "Reset offsets" not in visitor.get(f"/group?name={GROUP}").text
        assert visitor.change("/group/reset", **FIELDS, plan="x").status == 403
    assert starts(kafka)[0] == 3


def test_the_rebalances_of_a_share_group_have_a_page(visitor: Visitor, kafka: Kafka) -> None:
    kafka.share_group("seen").configure({"share.auto.offset.reset": "earliest"})
    worker = ShareConsumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "seen", "log_level": 0})
    try:
        worker.subscribe(["orders"])
        until(lambda: bool(worker.poll(0.1)))
    finally:
        worker.close()
    until(lambda: "left" in words(visitor.get("/group/history?name=seen").text))
    text = words(visitor.get("/group/history?name=seen").text)
    assert "joined" in text
    assert "partitions initialized" in text
    assert "orders:0 given to" in text
    assert "orders:0 taken from" in text
    assert "epoch" in text
    assert "generation" not in text
