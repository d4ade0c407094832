"""A Fetch of a former leader epoch is answered as by Apache Kafka 4.4.0, with the leader and its address (KIP-951)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from sordini.testing import make_kafka
from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.fetch import fetch
from tests.compat.situations.kraft import KRaftProcess
from tests.compat.situations.registry import normalise
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.outside.needs import kafka_clients_jar
from tests.outside.versions import NEWEST_APACHE_KAFKA

FENCED_LEADER_EPOCH = 74
VERSIONS = range(9, 19)


def of_apache_kafka(directory: Path, definitions: Definitions, prefix: str) -> dict[str, Any]:
    """Its leader epoch is another one after a restart."""
    with KRaftProcess(directory, {}, NEWEST_APACHE_KAFKA) as process:
        broker = Broker("127.0.0.1", process.port, definitions, prefix)
        topic = broker.create("fenced")
        broker.produce(topic, batch(3))
        broker.close()
        process.restart()
        return answers(Broker("127.0.0.1", process.port, definitions, prefix), topic)


def of_ours(definitions: Definitions, prefix: str) -> dict[str, Any]:
    """A leader of ours keeps its epoch over a restart: it goes to another broker, and comes back."""
    with make_kafka(2) as kafka:
        topic = kafka.topic(f"{prefix}-fenced", replicas=2)
        kafka.produce(topic, "record")
        for leader in (1, 2, 1):
            kafka.move_leader(topic, 0, to=leader)
        host, _, port = kafka.bootstrap_servers.partition(",")[0].rpartition(":")
        return answers(Broker(host, int(port), definitions, prefix), topic)


def answers(broker: Broker, topic: str) -> dict[str, Any]:
    """By version and leader epoch of the request: the first one, and one that is not there yet."""
    until(
        lambda: fetch(broker, topic, 0, version=12),
        lambda seen: isinstance(seen, dict) and seen["responses"][0]["partitions"][0]["error_code"] == 0,
    )
    found = {
        f"v{version}, epoch {epoch}": normalise(_asked(broker, topic, version, epoch), broker.prefix)
        for version in VERSIONS
        for epoch in (0, 99)
    }
    broker.close()
    return found


def _asked(broker: Broker, topic: str, version: int, epoch: int) -> Any:
    """The answer, with what differs between two clusters in words."""
    answer = fetch(broker, topic, 0, version=version, session_epoch=-1, current_leader_epoch=epoch)
    for node in answer.get("node_endpoints") or ():
        assert (node["host"], node["port"]) == (broker.host, broker.port)
        node["port"] = node["node_id"] = "this broker's"
    for row in answer["responses"][0]["partitions"]:
        leader = row.get("current_leader") or {}
        if leader.get("leader_epoch", -1) > 0:
            leader |= {"leader_id": "this broker", "leader_epoch": "the newest"}
    for response in answer["responses"]:
        response.pop("topic_id", None)
    return answer


@pytest.mark.slow
def test_a_fetch_of_a_former_leader_epoch_is_answered_as_by_apache_kafka(tmp_path: Path) -> None:
    definitions, prefix = Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA)), f"run{uuid4().hex[:8]}"
    theirs, ours = of_apache_kafka(tmp_path, definitions, prefix), of_ours(definitions, prefix)
    assert ours == theirs
    for version in VERSIONS:
        answer = ours[f"v{version}, epoch 0"]
        assert answer["responses"][0]["partitions"][0]["error_code"] == FENCED_LEADER_EPOCH
        assert bool(answer.get("node_endpoints")) == (version >= 16)
