"""No client library requests anything without pause: requests in each state, counted before both brokers.

Every client library is in every state of `spin/states.py` at the same time, each behind a proxy that counts its requests
by client id. What a client sends at Apache Kafka is the measure of what it may send here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from scripts.outside import has_go
from tests.cluster.tree import Tree
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.compat.spin.counting_proxy import CountingProxy
from tests.compat.spin.measured import ALL_CLIENTS, NEW_PYTHON, WINDOW_S, Sent, measure
from tests.compat.spin.states import AGAIN, DOOMED, ELSEWHERE, HELD, QUIET, SECRET
from tests.compat.waits.tree import GONE, Planted, plant
from tests.outside.java import ApacheKafkaProcess
from tests.outside.needs import kafka_clients_jar
from tests.outside.ports import free_port
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import APACHE_KAFKA

IS_WHOLE = os.environ.get("SORDINI_SPIN") == "all"

TOPICS = {
    QUIET: [Planted()],
    DOOMED: [Planted()],
    AGAIN: [Planted()],
    SECRET: [Planted()],
    ELSEWHERE: [Planted((GONE,))],
    "__consumer_offsets": [Planted(), Planted((GONE,))],
    "__transaction_state": [Planted((GONE,))],
}
CONFIGS = {"__consumer_offsets": {"cleanup.policy": "compact"}, "__transaction_state": {"cleanup.policy": "compact"}}
SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "zookeeper.session.timeout.ms": 18_000,
}
SPARE, FACTOR = 15 * WINDOW_S, 2
"""A client may send here, in one state, FACTOR times what it sends at Apache Kafka, and SPARE requests: the moments at
which it refreshes its metadata or joins again differ. A client that spins sends thousands.
"""
SPINS = 50 * WINDOW_S
"""What a client with pauses never sends."""
WITHOUT_PAUSE = {
    # They request metadata again as soon as they have it, which no broker can put off.
    *(
        f"{age}aiokafka: {state}"
        for age in ("", "old ")
        for state in ("only a deleted one", "produce without a leader")
    ),
    # Its fetches have no session, so that no broker knows that it has sent the error before.
    "old kafka-python: only a deleted one",
}
"""What spins at both brokers alike."""


@contextmanager
def _broker(process: BrokerProcess, settings: dict[str, object], proxy: CountingProxy) -> Iterator[Broker]:
    proxy.behind = free_port()
    settings |= SETTINGS | {
        "listeners": f"BROKERS://{process.bootstrap},CLIENTS://127.0.0.1:{proxy.behind}",
        "advertised.listeners": f"BROKERS://{process.bootstrap},CLIENTS://{proxy.bootstrap}",
    }
    tree = Tree(str(settings["zookeeper.connect"]))
    plant(tree, TOPICS, CONFIGS)
    tree.close()
    with process:
        broker = Broker("127.0.0.1", process.port, Definitions(kafka_clients_jar(APACHE_KAFKA)), prefix="spin")
        try:
            _prepare(broker)
            yield broker
        finally:
            broker.close()


def _prepare(broker: Broker) -> None:
    """The topics have their leaders, and one of them may be read and written by another user alone."""
    led = {name for name, partitions in TOPICS.items() if partitions == [Planted()]}

    def leaders() -> set[str]:
        asked = [{"name": name} for name in led]
        rows = broker.ask("Metadata", 9, topics=asked, allow_auto_topic_creation=False)["topics"]
        return {row["name"] for row in rows if [one["leader_id"] for one in row["partitions"]] == [0]}

    assert until(leaders, lambda seen: seen == led) == led
    entry = {"resource_type": 2, "resource_name": SECRET, "resource_pattern_type": 3, "principal": "User:other"}
    made = broker.ask("CreateAcls", 3, creations=[{**entry, "host": "*", "operation": 2, "permission_type": 3}])
    assert made["results"][0]["error_code"] == 0, made


@pytest.fixture
def proxy() -> Iterator[CountingProxy]:
    made = CountingProxy()
    yield made
    made.close()


def _at_sordini(
    zookeeper: str, clients: tuple[str, ...], folder: Path, proxy: CountingProxy, *, held: bool = False
) -> dict[str, Sent]:
    process = SordiniProcess(folder / "sordini", {"zookeeper.connect": f"{zookeeper}/spin-{uuid4().hex[:8]}"})
    with _broker(process, process.overrides, proxy) as broker:
        return measure(broker, proxy, clients, folder, held=held)


def _at_apache_kafka(zookeeper: str, clients: tuple[str, ...], folder: Path, proxy: CountingProxy) -> dict[str, Sent]:
    process = ApacheKafkaProcess(folder / "apache", f"{zookeeper}/spin-{uuid4().hex[:8]}")
    with _broker(process, process.settings, proxy) as broker:
        return measure(broker, proxy, clients, folder)


def table(theirs: dict[str, Sent], ours: dict[str, Sent]) -> str:
    rows = [
        f"{name:60} {theirs[name].requests:6} {ours[name].requests:6}  {theirs[name].apis} {ours[name].apis}"
        for name in ours
    ]
    return "\n".join(["", f"{f'requests in {WINDOW_S} s':60} Apache Sordini", *rows])


def spinning(ours: dict[str, Sent]) -> list[str]:
    return [name for name, sent in ours.items() if sent.requests > SPINS and name not in WITHOUT_PAUSE]


@pytest.mark.slow
@pytest.mark.skipif(IS_WHOLE, reason="the whole test has these clients, too")
def test_no_client_sends_requests_without_pause(zookeeper: str, tmp_path: Path, proxy: CountingProxy) -> None:
    """franz-go is the one that any error at once makes fetch without pause; it needs Go to be built."""
    clients = (*NEW_PYTHON, "franz-go") if has_go() else NEW_PYTHON
    ours = _at_sordini(zookeeper, clients, tmp_path, proxy)
    assert not spinning(ours), table(ours, ours)


@pytest.mark.skipif(not IS_WHOLE, reason="`make spin` runs it")
@pytest.mark.parametrize("clients", [ALL_CLIENTS[:4], ALL_CLIENTS[4:]], ids=["Python", "old Python, Java, Go, C"])
def test_no_client_sends_more_than_at_apache_kafka(
    zookeeper: str, clients: tuple[str, ...], tmp_path: Path, proxy: CountingProxy
) -> None:
    theirs = _at_apache_kafka(zookeeper, clients, tmp_path, proxy)
    ours = _at_sordini(zookeeper, clients, tmp_path, proxy)
    sys.stdout.write(table(theirs, ours))
    assert not spinning(ours), table(theirs, ours)
    more = [
        one for one in ours if one not in WITHOUT_PAUSE and ours[one].requests > FACTOR * theirs[one].requests + SPARE
    ]
    assert not more, table({one: theirs[one] for one in more}, {one: ours[one] for one in more})


@pytest.mark.skipif(not IS_WHOLE, reason="`make spin` runs it")
def test_no_client_sends_requests_without_pause_while_a_broker_is_not_ready(zookeeper: str, tmp_path: Path) -> None:
    """The proxy makes these states, so that every broker behind it is alike."""
    proxy = CountingProxy(HELD)
    try:
        ours = _at_sordini(zookeeper, ALL_CLIENTS, tmp_path, proxy, held=True)
    finally:
        proxy.close()
    sys.stdout.write(table(ours, ours))
    assert not spinning(ours), table(ours, ours)
