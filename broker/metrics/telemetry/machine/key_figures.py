"""The metrics that tell of every client how it fares, by the names that clients of Java and of librdkafka give them.

`sordini clients list` shows these, and Prometheus gets them. Pure.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "org.apache.kafka."
ENDINGS: Final = (
    "consumer.fetch.manager.records.lag.max",
    "consumer.fetch.manager.fetch.latency.avg",
    "consumer.fetch.manager.records.consumed.rate",
    "consumer.coordinator.rebalance.latency.avg",
    "consumer.coordinator.assigned.partitions",
    "consumer.coordinator.commit.latency.avg",
    "consumer.poll.idle.ratio.avg",
    "request.latency.avg",
    "node.request.latency.avg",
    "producer.record.queue.time.avg",
    "producer.record.send.rate",
    "producer.record.error.rate",
    "producer.produce.throttle.time.avg",
    "connection.count",
    "connection.creation.total",
)
"""Of names, behind the prefix; the first part of a name is the kind of the client."""


def is_key_figure(metric: str) -> bool:
    return metric.endswith(ENDINGS)
