"""DescribeConfigs and DescribeCluster."""

from typing import Any

from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


def _describe(
    broker: Broker, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4, **fields: Any
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = broker.ask("DescribeConfigs", version, resources=[resource], **fields)
    if isinstance(answer, str):
        return answer
    for result in answer["results"]:
        result["configs"] = {row.pop("name"): row for row in result["configs"]}
        for row in result["configs"].values():
            if row.get("documentation"):
                row["documentation"] = "text"
    return answer


@situation("DescribeConfigs of a topic lists every key with its default and source")
def topic_defaults(broker: Broker) -> Any:
    return _describe(broker, TOPIC, broker.create("configs-topic"))


@situation("DescribeConfigs of a topic with synonyms and documentation")
def topic_synonyms(broker: Broker) -> Any:
    topic = broker.create("configs-synonyms", retention_ms="5000", cleanup_policy="compact")
    return _describe(broker, TOPIC, topic, include_synonyms=True, include_documentation=True)


@situation("DescribeConfigs of some keys, known and unknown, in v0 to v4")
def some_keys(broker: Broker) -> Any:
    topic = broker.create("configs-some", segment_bytes="1048576")
    keys = ["segment.bytes", "no.such.key", "retention.ms", "min.insync.replicas"]
    return {version: _describe(broker, TOPIC, topic, keys, version=version) for version in range(5)}


@situation("DescribeConfigs of no keys")
def no_keys(broker: Broker) -> Any:
    topic = broker.create("configs-none")
    answer = _describe(broker, TOPIC, topic, [])
    return {"listed": len(answer["results"][0]["configs"]), "error": answer["results"][0]["error_code"]}


@situation("DescribeConfigs of an unknown topic, an invalid one, and none")
def unknown_topic(broker: Broker) -> Any:
    return {
        "unknown": _describe(broker, TOPIC, broker.name("configs-nowhere")),
        "invalid": _describe(broker, TOPIC, "in valid"),
        "empty": _describe(broker, TOPIC, ""),
    }


@situation("DescribeConfigs of brokers and resources that are not here")
def unknown_broker(broker: Broker) -> Any:
    return {
        "another broker": _describe(broker, BROKER, "77"),
        "not a number": _describe(broker, BROKER, "zero"),
        "resource type 1": _describe(broker, 1, "x"),
        "resource type 99": _describe(broker, 99, "x"),
        "another broker's loggers": _describe(broker, BROKER_LOGGER, "77"),
    }


HONOURED = [
    "advertised.listeners",
    "auto.create.topics.enable",
    "background.threads",
    "broker.id",
    "compression.type",
    "connections.max.idle.ms",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "listener.security.protocol.map",
    "listeners",
    "log.cleanup.policy",
    "log.dir",
    "log.dirs",
    "log.flush.interval.messages",
    "log.index.interval.bytes",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.ms",
    "log.segment.bytes",
    "max.connections",
    "max.connections.per.ip",
    "max.incremental.fetch.session.cache.slots",
    "message.max.bytes",
    "min.insync.replicas",
    "num.io.threads",
    "num.network.threads",
    "num.partitions",
    "queued.max.request.bytes",
    "replica.fetch.response.max.bytes",
    "replica.lag.time.max.ms",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
    "ssl.keystore.password",
    "transaction.max.timeout.ms",
    "unclean.leader.election.enable",
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
]
_OWN_VALUES = {"advertised.listeners", "listeners", "log.dir", "log.dirs", "zookeeper.connect"}


@situation("DescribeConfigs of a broker lists the keys with their defaults and sources")
def broker_keys(broker: Broker) -> Any:
    answer = _describe(broker, BROKER, "0", HONOURED, include_synonyms=True)
    for result in answer["results"]:
        for name in _OWN_VALUES & result["configs"].keys():
            row = result["configs"][name]
            row["value"] = "its own"
            for synonym in row["synonyms"]:
                synonym["value"] = "its own"
    return answer


@situation("DescribeConfigs of the brokers' common defaults")
def broker_defaults(broker: Broker) -> Any:
    return _describe(broker, BROKER, "")


@situation("DescribeCluster v0 and v1")
def cluster(broker: Broker) -> Any:
    return {
        "v0": broker.ask("DescribeCluster", 0),
        "v1": broker.ask("DescribeCluster", 1),
        "v0 with operations": broker.ask("DescribeCluster", 0, include_cluster_authorized_operations=True),
        "controllers from a broker": broker.ask("DescribeCluster", 1, endpoint_type=2),
        "endpoint type 9": broker.ask("DescribeCluster", 1, endpoint_type=9),
    }
