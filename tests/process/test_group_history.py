"""`sordini groups history` against brokers that have a history, have none, or know nothing of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from sordini.protocol.served_apis import APIS
from tests.outside.processes import SordiniProcess
from tests.process.test_cli import Run, run, run_at, run_here
from tests.support.hostile_broker import HostileBroker

__all__ = ["run"]  # The fixture.


def read_as_a_group(bootstrap: str, topic: str) -> str:
    """A consumer joins a group, reads one record, and leaves; the group's name."""
    group = f"group-{topic}"
    run_here(bootstrap, "topics", "create", topic)
    run_at(bootstrap, "produce", topic, standard_input="one\n")
    run_at(bootstrap, "consume", topic, "--group", group, "--from", "beginning", "-n", "1")
    return group


def test_a_consumer_that_came_and_went_is_two_rebalances(run: Run, sordini_broker: SordiniProcess, topic: str) -> None:
    group = read_as_a_group(sordini_broker.bootstrap, topic)
    found = json.loads(run("groups", "history", group, "--json").stdout)
    came, went = found["rebalances"]
    assert [came["causes"][0]["cause"], went["causes"][0]["cause"]] == ["member_joined", "member_left"]
    assert came["moves"][0]["to"] == went["moves"][0]["from"] == came["members"][0]["member_id"]
    assert (went["members"], went["assignor"], went["generation_after"]) == ([], None, came["generation_after"] + 1)
    text = run("groups", "history", group).stdout
    assert f"group {group}: 2 rebalances" in text
    assert text.count("left: ") == 1
    assert text.count(": generation ") == 1, "details of the last one only"
    assert run("groups", "history", group, "--last", "2").stdout.count(": generation ") == 2


def test_a_group_that_does_not_exist_is_reported(run: Run) -> None:
    done = run("groups", "history", "no-such-group", code=1)
    assert "there is no such group" in done.stderr


def test_a_history_that_is_turned_off_is_reported_with_its_key(
    start_sordini: Callable[..., SordiniProcess], topic: str
) -> None:
    broker = start_sordini({"sordini.group.rebalance.history.max": 0, "group.initial.rebalance.delay.ms": 0})
    group = read_as_a_group(broker.bootstrap, topic)
    done = run_here(broker.bootstrap, "groups", "history", group, code=1)
    assert "sordini.group.rebalance.history.max is 0" in done.stderr


async def test_a_broker_that_does_not_serve_the_request_is_reported_as_one_without_history() -> None:
    broker = HostileBroker()
    broker.served, broker.text = APIS, "text"
    await broker.start()
    try:
        done = await asyncio.to_thread(run_here, f"127.0.0.1:{broker.port}", "groups", "history", "g", code=1)
    finally:
        await broker.close()
    assert "keeps no history of rebalances: it is an older Sordini, or another broker" in done.stderr
