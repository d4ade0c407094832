"""Keys of Apache Kafka that are accepted in a configuration without effect, and why.

A typical server.properties, or the environment of a container, has many of them. They are accepted without a warning
for each, so that a warning about a misspelt key is noticed. Any other key is unknown and logged with a warning. Keys
of KRaft are in `kraft_keys.py`; keys of encryption, authentication, authorization, quotas and policies in
`protection_keys.py`.
"""

from __future__ import annotations

from sordini.system.named_tuple import NamedTuple


class IgnoredKeys(NamedTuple):
    """Keys without effect for one reason; Apache Kafka changes the `dynamic` ones at run time."""

    why: str
    dynamic: tuple[str, ...]
    static: tuple[str, ...]


IGNORED = (
    IgnoredKeys(
        "One event loop does the work of these threads.",
        ("background.threads", "num.io.threads", "num.recovery.threads.per.data.dir"),
        ("group.coordinator.threads", "num.replica.alter.log.dirs.threads", "queued.max.requests"),
    ),
    IgnoredKeys(
        "Replicas are not moved between directories by the broker itself yet.",
        (),
        (
            "log.dir.failure.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
            "socket.connection.setup.timeout.ms",
        ),
    ),
    IgnoredKeys(
        "Delayed requests, groups and the store are implemented differently.",
        (),
        (
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "group.coordinator.append.linger.ms",
            "offsets.commit.required.acks",
            "producer.purgatory.purge.interval.requests",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            "zookeeper.max.in.flight.requests",
        ),
    ),
    IgnoredKeys(
        "Metrics are served for Prometheus, not by JMX.",
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
        ),
    ),
)

IGNORED_DYNAMIC = frozenset(key for group in IGNORED for key in group.dynamic)
IGNORED_STATIC = frozenset(key for group in IGNORED for key in group.static)
WITHOUT_EFFECT = IGNORED_DYNAMIC | IGNORED_STATIC
