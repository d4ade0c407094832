"""Subscriptions to clients' metrics (KIP-714) in a real ZooKeeper: every broker has them, and a restart keeps them.

Apache Kafka has them in KRaft mode only, so their znodes are ours. With SORDINI_MIXED=all an Apache Kafka is a third broker of
the cluster: it complains of each notification, leaves the znodes as they are, and follows the next change of a topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Producer

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from sordini.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.cluster.cluster import OURS, SECONDS_MAX, Cluster
from tests.cluster.conftest import EVERYTHING, PROTOCOLS
from tests.process.test_cli import run_here
from tests.support.telemetry_pushes import ON, an_id
from tests.support.wire_client import Client

OURS_IDS: Final = (1, 2)
THEIRS: Final = 3
COMPLAINT: Final = re.compile(
    r"^3: .*ERROR error processing change notification .*client-metrics/.*must have 'entity_path'", re.DOTALL
)
"""What Apache Kafka says of a notification of settings that it does not know."""
CLIENT_METRICS: Final = 16
STORE: Final = "/config/client-metrics"
NAME: Final = "lag of billing"
NODE: Final = f"{STORE}/lag%20of%20billing"
LAG: Final = "org.apache.kafka.consumer.fetch.manager.records.lag"
METRICS: Final = f"metrics={LAG}"
INTERVAL: Final = "interval.ms=7000"
MATCH: Final = "match=client_id=billing-.*"


@pytest.fixture(scope="module")
def cluster(zookeeper: str, version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("client-metrics"), zookeeper, PROTOCOLS[version])
    try:
        # A killed broker comes back when its session has ended.
        made.start(dict.fromkeys(OURS_IDS, OURS), {**ON, "zookeeper.session.timeout.ms": 2_000})
        if EVERYTHING:
            made.start({THEIRS: version})
        yield made
        errors = [error for error in made.errors() if not COMPLAINT.search(error)]
        assert not errors, "\n".join(errors)
    finally:
        made.close()


def asked(cluster: Cluster, broker: int, client_id: str) -> tuple[list[str], int]:
    """What a broker asks a client to push, and how often in milliseconds."""
    with Client("127.0.0.1", cluster.brokers[broker].port) as client:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=an_id(broker))
        answer: Any = client.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request, client_id)
    assert answer.error_code == 0
    return list(answer.requested_metrics), answer.push_interval_ms


def listed(cluster: Cluster, broker: int) -> list[str]:
    """The subscriptions that a broker lists."""
    with Client("127.0.0.1", cluster.brokers[broker].port) as client:
        request = ListConfigResourcesRequest(resource_types=[CLIENT_METRICS])
        answer: Any = client.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, request)
    return sorted(row.resource_name for row in answer.config_resources)


def set_through(cluster: Cluster, broker: int, *settings: str) -> None:
    run_here(cluster.brokers[broker].bootstrap, "configs", "set", "--client-metrics", NAME, *settings)


def is_refused(cluster: Cluster, value: bytes) -> bool:
    """Whether the leader says that a record of the topic that it leads is too large."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    producer.produce("followed", value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    return outcomes[0] is not None and outcomes[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def wait_until_asked(cluster: Cluster, metrics: list[str], interval_ms: int) -> None:
    for broker in OURS_IDS:
        cluster.wait(
            lambda at=broker: asked(cluster, at, "billing-7") == (metrics, interval_ms),
            f"broker {broker} asks for {metrics} every {interval_ms} ms",
        )


def test_a_subscription_set_through_one_broker_is_asked_for_by_all_and_its_znode_is_as_of_other_settings(
    cluster: Cluster,
) -> None:
    set_through(cluster, 1, METRICS, INTERVAL, MATCH)
    wait_until_asked(cluster, [LAG], 7_000)
    assert asked(cluster, 2, "shipping-7") == ([], 300_000)
    assert cluster.tree.children(STORE) == [NODE.rpartition("/")[2]]
    settings = dict(pair.split("=", 1) for pair in (METRICS, INTERVAL, MATCH))
    assert cluster.tree.read(NODE) == {"version": 1, "config": settings}


def test_a_subscription_is_changed_through_another_broker_while_one_restarts_and_all_have_the_change(
    cluster: Cluster,
) -> None:
    set_through(cluster, 1, METRICS, INTERVAL, MATCH)
    wait_until_asked(cluster, [LAG], 7_000)
    assert cluster.brokers[1].stop() == 0
    set_through(cluster, 2, "interval.ms=9000")
    cluster.restart(1)
    wait_until_asked(cluster, [LAG], 9_000)
    assert [listed(cluster, broker) for broker in OURS_IDS] == [[NAME]] * 2


@pytest.mark.parametrize("end", ["stopped", pytest.param("killed", marks=pytest.mark.slow)])
def test_subscriptions_survive_when_all_brokers_are(cluster: Cluster, end: str) -> None:
    set_through(cluster, 2, METRICS, INTERVAL, MATCH)
    wait_until_asked(cluster, [LAG], 7_000)
    ours = [cluster.ours(broker) for broker in OURS_IDS]
    for process in ours:
        process.terminate() if end == "stopped" else process.kill()
    for process in ours:
        process.wait_for_exit(60)
    for broker in OURS_IDS:
        cluster.restart(broker)
    wait_until_asked(cluster, [LAG], 7_000)


def test_a_deleted_subscription_is_gone_from_every_broker_and_stays_gone_after_a_restart(cluster: Cluster) -> None:
    set_through(cluster, 1, METRICS, INTERVAL, MATCH)
    wait_until_asked(cluster, [LAG], 7_000)
    keys = [pair.partition("=")[0] for pair in (METRICS, INTERVAL, MATCH)]
    run_here(cluster.brokers[2].bootstrap, "configs", "unset", "--client-metrics", NAME, *keys)
    wait_until_asked(cluster, [], 300_000)
    assert cluster.tree.read(NODE) == {"version": 1, "config": {}}, "as of a topic whose settings are all removed"
    cluster.brokers[1].stop()
    cluster.restart(1)
    wait_until_asked(cluster, [], 300_000)
    assert listed(cluster, 1) == []


@pytest.mark.skipif(not EVERYTHING, reason="`make mixed` has an Apache Kafka beside ours")
def test_an_apache_kafka_beside_ours_complains_once_of_each_change_and_follows_that_of_a_topic(
    cluster: Cluster,
) -> None:
    cluster.create("followed", [[THEIRS, 1]])
    complaints = len(cluster.errors())
    set_through(cluster, 1, METRICS, INTERVAL, MATCH)
    before = cluster.tree.read(NODE)
    bootstrap = cluster.brokers[1].bootstrap
    run_here(bootstrap, "configs", "set", "--topic", "followed", "max.message.bytes=300")
    cluster.wait(lambda: is_refused(cluster, b"x" * 1_000), "Apache Kafka follows the change of a topic")
    cluster.wait(lambda: len(cluster.errors()) == complaints + 1, "Apache Kafka complains once")
    assert cluster.tree.read(NODE) == before
