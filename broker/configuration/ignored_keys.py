"""Keys of Apache Kafka's that may stand in a configuration and do nothing here, and why not.

A usual server.properties, or the environment of a container, names many of them. They are taken without a warning
each, so that a warning about a misspelt key is not lost among them. What is not listed is unknown and warned of, and
so is all that makes a KRaft node. Keys of encryption, authentication, authorization, quotas and policies are in
`protection_keys.py`.
"""

from __future__ import annotations

from typing import NamedTuple


class IgnoredKeys(NamedTuple):
    """Keys that do nothing for one reason; Apache Kafka changes the `dynamic` ones of them at run time."""

    why: str
    dynamic: tuple[str, ...]
    static: tuple[str, ...]


IGNORED = (
    IgnoredKeys(
        "One loop does the work of the threads.",
        ("background.threads", "num.io.threads", "num.recovery.threads.per.data.dir"),
        ("group.coordinator.threads", "num.replica.alter.log.dirs.threads", "queued.max.requests"),
    ),
    IgnoredKeys(
        "Replicas are not moved between directories by the broker itself yet.",
        (),
        (
            "log.dir.failure.timeout.ms",
            "request.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
            "socket.connection.setup.timeout.ms",
        ),
    ),
    IgnoredKeys(
        "There are no transactions yet.",
        ("transaction.partition.verification.enable",),
        (
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "transaction.max.timeout.ms",
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            "transaction.state.log.load.buffer.size",
            "transaction.state.log.min.isr",
            "transaction.state.log.num.partitions",
            "transaction.state.log.replication.factor",
            "transaction.state.log.segment.bytes",
            "transactional.id.expiration.ms",
        ),
    ),
    IgnoredKeys(
        "Requests that wait, groups and the store are looked after in another way.",
        (),
        (
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "group.consumer.assignors",
            "group.consumer.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
            "group.consumer.max.session.timeout.ms",
            "group.consumer.max.size",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.session.timeout.ms",
            "group.coordinator.append.linger.ms",
            "group.coordinator.rebalance.protocols",
            "offsets.commit.required.acks",
            "producer.purgatory.purge.interval.requests",
            "zookeeper.max.in.flight.requests",
        ),
    ),
    IgnoredKeys(
        "Metrics are not Java's.",
        (),
        (
            "auto.include.jmx.reporter",
            "confluent.support.customer.id",
            "confluent.support.metrics.enable",
            "kafka.metrics.polling.interval.secs",
            "kafka.metrics.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "telemetry.max.bytes",
        ),
    ),
)

IGNORED_DYNAMIC = frozenset(key for group in IGNORED for key in group.dynamic)
IGNORED_STATIC = frozenset(key for group in IGNORED for key in group.static)
WITHOUT_EFFECT = IGNORED_DYNAMIC | IGNORED_STATIC
