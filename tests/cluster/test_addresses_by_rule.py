"""Advertised addresses by rule, in a cluster of two of ours and an Apache Kafka, with either as the controller.

Real clients connect at one loopback address, and all that they receive is at that address; of Apache Kafka's broker,
which has no rules, they receive the plain one. Brokers find each other by the plain ones alone.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.cluster.cluster import OURS, Cluster
from tests.compat import round_trips
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.tools import JavaTools
from tests.outside.versions import APACHE_KAFKA
from tests.support.wire_client import Client

KINDS = {1: OURS, 2: OURS, 3: APACHE_KAFKA}
PLACES = {"plain": "127.0.0.1", "SECOND": "127.0.0.2", "SIX": "::1"}
WITHOUT_RULES = 3


class RuledCluster(Cluster):
    """Ours listen at all addresses, and have a rule for each but one."""

    def _made(self, broker_id: int, kind: str, overrides: Mapping[str, object]) -> BrokerProcess:
        made = super()._made(broker_id, kind, overrides)
        if isinstance(made, SordiniProcess):
            made.overrides |= {
                "listeners": f"PLAINTEXT://:{made.port}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{made.port}",
                "sordini.advertised.listeners.rules": (
                    f"SECOND://127.0.0.2:{made.port} to=127.0.0.2; SIX://[::1]:{made.port} from=::1; "
                    f"FIFTH://127.0.0.5:{made.port} from=127.0.0.5/32"
                ),
            }
        return made


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuledCluster]:
    made = RuledCluster(tmp_path_factory.mktemp("rules"), zookeeper, "3.9")
    try:
        made.start(KINDS)
        made.create_internal([1, 2, WITHOUT_RULES])
        made.create("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        yield made
        assert made.errors() == []
    finally:
        made.close()


@pytest.fixture(scope="module")
def tool() -> Iterator[JavaTools]:
    with JavaTools() as tools:
        yield tools


@pytest.fixture(params=[1, WITHOUT_RULES], ids=["ours", "apache"], scope="module")
def governed(request: pytest.FixtureRequest, cluster: RuledCluster) -> RuledCluster:
    """Each is the controller, and sends all others the addresses."""
    cluster.move_controller(request.param)
    cluster.wait_until_known([("orders", 0)])
    return cluster


ANSWERS_MAX = 20


def expected(cluster: Cluster, host: str) -> dict[int, tuple[str, int]]:
    """What a client at `host` receives."""
    found = {}
    for number, process in cluster.brokers.items():
        found[number] = ("127.0.0.1" if number == WITHOUT_RULES else host, process.port)
    return found


def at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@pytest.fixture(params=PLACES.values(), ids=PLACES, scope="module")
def host(request: pytest.FixtureRequest) -> str:
    place: str = request.param
    return place


def answered(cluster: Cluster, request: Callable[[], dict[int, tuple[str, int]]]) -> dict[int, tuple[str, int]]:
    """What one of our brokers answers.

    A client sends it to any broker that it knows, and Apache Kafka's has no rules: it answers as without them.
    """
    plain = expected(cluster, "127.0.0.1")
    for _ in range(ANSWERS_MAX):
        found = request()
        if found != plain:
            return found
    return plain


def described(bootstrap: str) -> dict[int, tuple[str, int]]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return {row["broker_id"]: (row["host"], row["port"]) for row in admin.describe_cluster()["brokers"]}
    finally:
        admin.close()


def test_kafka_python_receives_addresses_of_its_own_network(governed: RuledCluster, host: str) -> None:
    bootstrap = at(host, governed.brokers[1].port)
    assert answered(governed, lambda: described(bootstrap)) == expected(governed, host)
    topic = f"python-{host.replace(':', '-')}-{governed.tree.controller()}"
    governed.create(topic, [[2, 1, 3]])
    round_trips.by_kafka_python(topic, {"bootstrap_servers": bootstrap})


def test_librdkafka_receives_addresses_of_its_own_network(governed: RuledCluster, host: str) -> None:
    bootstrap = at(host, governed.brokers[2].port)

    def listed() -> dict[int, tuple[str, int]]:
        brokers = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).brokers
        return {number: (broker.host, broker.port) for number, broker in brokers.items()}

    assert answered(governed, listed) == expected(governed, host)
    topic = f"librdkafka-{host.replace(':', '-')}-{governed.tree.controller()}"
    governed.create(topic, [[1, 2, 3]])
    round_trips.by_librdkafka(topic, {"bootstrap.servers": bootstrap})


def test_java_receives_addresses_of_its_own_network(
    governed: RuledCluster, host: str, tool: JavaTools, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bootstrap = at(host, governed.brokers[1].port)

    def printed() -> dict[int, tuple[str, int]]:
        text = tool("kafka.admin.BrokerApiVersionsCommand", "--bootstrap-server", bootstrap)
        rows = re.findall(r"^(\S+):(\d+) \(id: (\d+) ", text, re.MULTILINE)
        found = {int(number): (address.strip("[]"), int(port)) for address, port, number in rows}
        return {number: (socket.inet_ntop(*_packed(address)), port) for number, (address, port) in found.items()}

    assert answered(governed, printed) == expected(governed, host)
    topic = f"java-{host.replace(':', '-')}-{governed.tree.controller()}"
    governed.create(topic, [[2, 1, 3]])
    properties = tmp_path_factory.mktemp("java") / "client.properties"
    properties.write_text("")
    round_trips.by_java_tools(topic, tool, bootstrap, str(properties))


def test_a_client_receives_addresses_by_the_one_that_it_connects_from(governed: RuledCluster) -> None:
    process = governed.brokers[1]
    with Client("127.0.0.1", process.port) as client:
        client.socket.close()
        client.socket = socket.create_connection(("127.0.0.1", process.port), 20, source_address=("127.0.0.5", 0))
        rows = client.metadata("orders").brokers
        assert {row.node_id: (row.host, row.port) for row in rows} == expected(governed, "127.0.0.5")
        described = client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest()).brokers
        assert {row.broker_id: (row.host, row.port) for row in described} == expected(governed, "127.0.0.5")


def test_apache_kafka_answers_with_plain_addresses_and_is_not_disturbed_by_the_others(governed: RuledCluster) -> None:
    with Client("127.0.0.1", governed.brokers[WITHOUT_RULES].port) as client:
        rows = client.metadata("orders").brokers
    assert {row.node_id: (row.host, row.port) for row in rows} == expected(governed, "127.0.0.1")
    registered = governed.tree.read("/brokers/ids/1")
    port = governed.brokers[1].port
    assert registered["endpoints"] == [f"PLAINTEXT://127.0.0.1:{port}"]
    assert registered["sordini_rule_endpoints"] == [
        f"SECOND://127.0.0.2:{port}",
        f"SIX://[::1]:{port}",
        f"FIFTH://127.0.0.5:{port}",
    ]
    assert (registered["host"], registered["port"]) == ("127.0.0.1", port)


def _packed(address: str) -> tuple[socket.AddressFamily, bytes]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return family, socket.inet_pton(family, address)
