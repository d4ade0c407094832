"""`sordini transactions` against a broker with an ongoing transaction, and with one that hangs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from sordini.protocol.api_keys import ApiKey
from tests.outside.processes import SordiniProcess
from tests.outside.tools import JavaTools
from tests.process.test_cli import rows, run_here
from tests.support.transaction_requests import Producer, produce_request, produced
from tests.support.wire_client import Client

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

HANGING = 4_711
UNVERIFIED = {"transaction.partition.verification.enable": "false", "group.initial.rebalance.delay.ms": "0"}

Start = Callable[..., SordiniProcess]
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@contextmanager
def ongoing(bootstrap: str, topic: str, transactional_id: str) -> Iterator[KafkaProducer]:
    """A producer in a transaction that has a record in partition 0."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"pending", partition=0)
        producer.flush(timeout=15)
        yield producer


def test_transactions_are_listed_described_and_found_when_they_hang(start_sordini: Start, topic: str) -> None:
    broker = start_sordini(UNVERIFIED)
    bootstrap = broker.bootstrap

    def run(*arguments: str, code: int = 0):
        return run_here(bootstrap, "transactions", *arguments, code=code)

    assert "no such transactional ids" in run("list").stderr
    assert "does not exist" in run("describe", "unknown", code=1).stderr
    run_here(bootstrap, "topics", "create", topic, "-p", "2")
    with ongoing(bootstrap, topic, "billing") as producer:
        listed = json.loads(run("list", "--json").stdout)
        [described] = json.loads(run("describe", "billing", "--json").stdout)
        assert [(row["transactional_id"], row["state"]) for row in listed] == [("billing", "Ongoing")]
        assert (described["state"], described["partitions"]) == ("Ongoing", [{"topic": topic, "partition": 0}])
        assert described["started"] is not None
        assert f"{topic}-0" in run("describe", "billing").stdout
        assert [row[0] for row in rows(run("list", "--state", "Ongoing"))] == ["billing"]
        assert [row[0] for row in rows(run("list", "--pattern", "bill.*"))] == ["billing"]
        for filtered in (("--state", "Empty"), ("--longer-than", "1h"), ("--producer-id", "99"), ("--pattern", "x.*")):
            assert rows(run("list", *filtered)) == []
        assert "there is no state Wrong" in run("list", "--state", "Wrong", code=1).stderr

        host, port = bootstrap.split(":")
        with Client(host, int(port)) as client:  # Its batch is old: the builders' clock stands still.
            request = produce_request(Producer("nobody", HANGING), {0: 0, 1: 0}, topic=topic)
            assert produced(client.ask(ApiKey.PRODUCE, 9, request)) == {0: 0, 1: 0}
        [first, second] = json.loads(run("producers", f"{topic}:0", "--json").stdout)
        assert {first["producer_id"], second["producer_id"]} == {described["producer_id"], HANGING}
        assert all(row["transaction_start_offset"] is not None for row in (first, second))
        assert len(rows(run("producers", topic))) == 3

        found = json.loads(run("find-hanging", "--json").stdout)
        assert [(row["partition"], row["producer_id"], row["start_offset"]) for row in found] == [
            (0, HANGING, 1),
            (1, HANGING, 0),
        ]
        assert len(rows(run("find-hanging", "--topic", f"{topic}:1", "--broker", str(described_broker(listed))))) == 1
        assert "No transaction hangs" in run("find-hanging", "--longer-than", "5000w").stderr

        assert "has no open transaction" in run("abort", f"{topic}:1", "--start-offset", "5", "--yes", code=1).stderr
        run("abort", topic, "--start-offset", "0", code=2)
        assert "aborted" in run("abort", f"{topic}:1", "--start-offset", "0", "--yes").stdout
        aborted = json.loads(run("abort", f"{topic}:0", "--start-offset", "1", "--yes", "--json").stdout)
        assert aborted["aborted"] is True
        assert "No transaction hangs" in run("find-hanging").stderr
        producer.commit_transaction()
    assert json.loads(run("list", "--json").stdout)[0]["state"] == "CompleteCommit"
    read = run_here(bootstrap, "consume", topic, "-p", "0", "--from", "beginning", "-n", "1")
    assert read.stdout.splitlines() == ["pending"]


def described_broker(listed: list[dict[str, int]]) -> int:
    return listed[0]["coordinator"]


def test_apache_kafkas_tool_finds_and_aborts_what_ours_does(start_sordini: Start, topic: str) -> None:
    broker = start_sordini(UNVERIFIED)
    bootstrap = broker.bootstrap
    run_here(bootstrap, "topics", "create", topic)
    host, port = bootstrap.split(":")
    with ongoing(bootstrap, topic, "billing") as producer, JavaTools() as tools:
        with Client(host, int(port)) as client:
            request = produce_request(Producer("nobody", HANGING), {0: 0}, topic=topic)
            assert produced(client.ask(ApiKey.PRODUCE, 9, request)) == {0: 0}

        def tool(*arguments: str) -> list[list[str]]:
            printed = tools("TransactionsCommand", "--bootstrap-server", bootstrap, *arguments)
            return [line.split() for line in printed.splitlines()[1:] if line.strip()]

        [listed] = tool("list")
        [described] = tool("describe", "--transactional-id", "billing")
        assert (listed[0], listed[3]) == ("billing", "Ongoing")
        assert "Ongoing" in described
        assert f"{topic}-0" in described
        producers = tool("describe-producers", "--topic", topic, "--partition", "0")
        assert str(HANGING) in {row[0] for row in producers}
        [found] = tool("find-hanging", "--topic", topic, "--partition", "0")
        assert found[:3] == [topic, "0", str(HANGING)]
        tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "1")
        assert tool("find-hanging", "--topic", topic, "--partition", "0") == []
        assert "No transaction hangs" in run_here(bootstrap, "transactions", "find-hanging").stderr
        producer.commit_transaction()
