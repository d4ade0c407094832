"""`sordini groups history` of groups of real clients: members join, leave and die."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.groups.member import Settings
from tests.compat.groups.members import MemberProcess, await_shared
from tests.outside.processes import SordiniProcess
from tests.process.test_cli import run_here

MakeTopic = Callable[..., str]
Start = Callable[..., MemberProcess]
CLIENTS = [("kafka-python", "range"), ("aiokafka", "roundrobin"), ("confluent", "cooperative-sticky")]


@pytest.fixture
def launch(sordini_broker: SordiniProcess, tmp_path: Path) -> Iterator[Start]:
    """`launch(("kafka-python", "range"), "a", topic)` starts a member; the test's end kills it."""
    launched: list[MemberProcess] = []

    def start(client: tuple[str, str], name: str, topic: str) -> MemberProcess:
        kind, assignor = client
        settings = Settings(
            kind, name, sordini_broker.bootstrap, topic, topic, assignor=assignor, session_timeout_ms=2_000
        )
        process = MemberProcess(tmp_path / f"{len(launched)}", settings)
        launched.append(process)
        process.launch()
        return process

    yield start
    for process in launched:
        process.kill()


@pytest.fixture(params=CLIENTS, ids=" ".join)
def client(request: pytest.FixtureRequest) -> tuple[str, str]:
    pair: tuple[str, str] = request.param
    return pair


def causes_of(rebalances: list[dict[str, Any]]) -> list[str]:
    return [cause["cause"] for row in rebalances for cause in row["causes"]]


def moved_from(rebalances: list[dict[str, Any]], source: str) -> set[int]:
    """The partitions that a member lost, and that another one has got since then."""
    return {
        move["partition"]
        for row in rebalances
        for move in row["moves"]
        if move["from"] == source and move["to"] != source
    }


def test_the_history_says_who_joined_left_and_died_and_what_moved(
    sordini_broker: SordiniProcess, launch: Start, make_topic: MakeTopic, client: tuple[str, str]
) -> None:
    topic = make_topic(partitions=4)
    partitions = [(topic, index) for index in range(4)]

    def history(*options: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            run_here(sordini_broker.bootstrap, "groups", "history", topic, "--json", *options).stdout
        )
        return found

    first = launch(client, "a", topic)
    await_shared([first], partitions)
    second = launch(client, "b", topic)
    await_shared([first, second], partitions)
    joined = history()["rebalances"]
    assert causes_of(joined).count("member_joined") == 2
    assert [len(row["members"]) for row in (joined[0], joined[-1])] == [1, 2]

    second.terminate()
    await_shared([first], partitions)
    left = history()["rebalances"][len(joined) :]
    (leaver,) = {cause["member_id"] for row in left for cause in row["causes"] if cause["cause"] == "member_left"}
    assert len(moved_from(left, leaver)) == 2

    third = launch(client, "c", topic)
    await_shared([first, third], partitions)
    before = len(history()["rebalances"])
    third.kill()
    await_shared([first], partitions)
    died = history()["rebalances"][before:]
    (dead,) = {cause["member_id"] for row in died for cause in row["causes"] if cause["cause"] == "session_timeout"}
    assert len(moved_from(died, dead)) == 2
    assert all(member["waited_ms"] is not None for row in died for member in row["members"])

    text = run_here(sordini_broker.bootstrap, "groups", "history", topic, "--last", "1").stdout
    assert "BEGAN" in text
    assert history("--last", "1")["rebalances"] == history()["rebalances"][-1:]
