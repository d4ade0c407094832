"""The names under which Prometheus' JMX exporter shows Apache Kafka's metrics, for dashboards that query them.

Only metrics that mean the same here, and those that common dashboards and alerts use. `topic=""` is the sum, as in the
beans of Apache Kafka. Idle shares of threads, the purgatories and the JVM have no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sordini.broker.metrics.families import MetricFamily, MetricSources, Sample, Step, counter, gauge, tally
from sordini.broker.metrics.log_families import is_under_replicated, leaderless, partitions_that, per_log
from sordini.broker.metrics.recent_latencies import QUANTILES, RecentLatencies
from sordini.broker.metrics.topic_traffic import TopicTraffic
from sordini.broker.requests.call import VersionedApi
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import ALL_APIS
from sordini.replication.partition import Partition
from sordini.storage.log import Log

RUNNING = 3
"""The state of a broker that serves (`BrokerState`)."""
_API_NAMES = {number & 0xFF: api.key.name.title().replace("_", "") for number, api in ALL_APIS.items()}


def kafka_families() -> tuple[MetricFamily, ...]:
    """The families of one broker; what they count between scrapes is theirs."""
    return (*_topics(TopicTraffic()), *_replicas(), *_controller(), *_requests(RecentLatencies()), *_logs(), *_groups())


def _topics(traffic: TopicTraffic) -> Iterator[MetricFamily]:
    topics = "kafka_server_brokertopicmetrics_"
    yield counter(
        f"{topics}messagesin_total",
        "Records appended to partitions that this broker leads.",
        lambda sources: _with_sum(traffic.records(sources.parts.replicas)),
        "topic",
    )
    yield counter(
        f"{topics}bytesin_total",
        "Bytes appended to partitions that this broker leads, as they are stored.",
        lambda sources: _with_sum(traffic.stored_bytes(sources.parts.replicas)),
        "topic",
    )
    yield counter(
        f"{topics}bytesout_total",
        "Bytes sent over all listeners, of all topics together; to other brokers, too.",
        lambda sources: [(("",), sources.sockets.traffic[1])],
        "topic",
    )
    for key, name in ((ApiKey.PRODUCE, "produce"), (ApiKey.FETCH, "fetch")):
        total, failed = f"{topics}total{name}requests_total", f"{topics}failed{name}requests_total"
        yield counter(total, f"Requests to {name}.", _of_api(key, lambda api: api.requests), "topic")
        yield counter(
            failed, f"Requests to {name} that failed as a whole.", _of_api(key, lambda api: api.errors), "topic"
        )


def _with_sum(rows: Iterator[tuple[str, int] | None]) -> Iterator[Step]:
    total = 0
    for row in rows:
        if row is None:
            yield None
            continue
        topic, count = row
        total += count
        yield (topic,), count
    yield ("",), total


def _of_api(key: ApiKey, value: Callable[[VersionedApi], int]) -> Callable[[MetricSources], list[Sample]]:
    """The sum over the versions of an API."""
    return lambda sources: [
        (("",), sum(value(one) for one in sources.parts.dispatcher.versioned_apis if one.api.key == key))
    ]


def _replicas() -> Iterator[MetricFamily]:
    manager = "kafka_server_replicamanager_"
    conditions: dict[str, tuple[str, Callable[[Partition], bool]]] = {
        "partitioncount": ("Partitions with a replica on this broker.", lambda _: True),
        "leadercount": ("Partitions that this broker leads.", lambda partition: partition.leader is not None),
        "underreplicatedpartitions": ("Led partitions with replicas that are not in sync.", is_under_replicated),
        "underminisrpartitioncount": (
            "Led partitions with fewer in-sync replicas than min.insync.replicas.",
            lambda partition: partition.is_under_min_isr,
        ),
        "atminisrpartitioncount": (
            "Led partitions with exactly min.insync.replicas in-sync replicas.",
            _is_at_min_isr,
        ),
        "offlinereplicacount": (
            "Replicas on log directories that have failed.",
            lambda partition: partition.log.log_dir.failure is not None,
        ),
    }
    for name, (meaning, condition) in conditions.items():
        yield partitions_that(manager + name, meaning, condition)
    yield counter(
        f"{manager}isrshrinks_total",
        "Changes by which replicas left the in-sync set of a led partition.",
        lambda sources: sources.parts.replicas.isr_changes.shrinks,
    )
    yield counter(
        f"{manager}isrexpands_total",
        "Changes by which replicas joined the in-sync set of a led partition.",
        lambda sources: sources.parts.replicas.isr_changes.expansions,
    )
    yield gauge(
        "kafka_server_kafkaserver_brokerstate", "3 while the broker serves, as Apache Kafka's.", lambda _: RUNNING
    )
    yield gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "Connections that are open now.",
        lambda sources: (
            ((name,), sources.sockets.quotas.of_listener(name)) for name in list(sources.sockets.acceptors)
        ),
        "listener",
    )


def _is_at_min_isr(partition: Partition) -> bool:
    leader, wanted = partition.leader, partition.settings.min_insync_replicas
    return leader is not None and len(leader.isr) == min(wanted, len(partition.replicas))


def _controller() -> Iterator[MetricFamily]:
    """As in Apache Kafka, brokers that are not the controller report 0."""
    controller = "kafka_controller_kafkacontroller_"

    def of_controller(read: Callable[[MetricSources], float]) -> Callable[[MetricSources], float]:
        return lambda sources: read(sources) if sources.controller.is_active else 0

    yield gauge(f"{controller}activecontrollercount", "1 on the controller, else 0.", of_controller(lambda _: 1))
    yield tally(
        f"{controller}offlinepartitionscount",
        "Partitions of the cluster without a leader.",
        lambda sources: leaderless(sources) if sources.controller.is_active else (),
        int,
    )
    yield gauge(
        f"{controller}globaltopiccount",
        "Topics of the cluster.",
        of_controller(lambda sources: len(sources.parts.metadata.topics)),
    )
    yield tally(
        f"{controller}globalpartitioncount",
        "Partitions of the cluster.",
        lambda sources: list(sources.parts.metadata.topics.values()) if sources.controller.is_active else [],
        lambda topic: len(topic.partitions),
    )
    yield gauge(
        f"{controller}activebrokercount",
        "Brokers that are registered.",
        of_controller(lambda sources: len(sources.parts.metadata.brokers)),
    )


def _requests(recent: RecentLatencies) -> Iterator[MetricFamily]:
    metrics = "kafka_network_requestmetrics_"

    def quantiles(sources: MetricSources) -> Iterator[Sample]:
        for key, values in recent.quantiles(sources.latencies, sources.uptime_ms()):
            for quantile, milliseconds in zip(QUANTILES, values, strict=True):
                yield (_API_NAMES[key], str(quantile)), milliseconds

    yield counter(
        f"{metrics}requests_total",
        "Requests that were read.",
        lambda sources: (
            ((_API_NAMES[one.api.key & 0xFF], str(one.version)), one.requests)
            for one in list(sources.parts.dispatcher.versioned_apis)
            if one.requests
        ),
        "request",
        "version",
    )
    yield gauge(
        f"{metrics}totaltimems",
        "Quantiles of the time from a request's arrival to its answer in the last minutes, in milliseconds.",
        quantiles,
        "request",
        "quantile",
    )
    yield gauge(
        "kafka_network_requestchannel_requestqueuesize",
        "Requests of many elements that wait for their next slice.",
        lambda sources: sources.parts.dispatcher.slices.waiting,
    )


def _logs() -> Iterator[MetricFamily]:
    values: dict[str, tuple[str, Callable[[Log], float]]] = {
        "size": ("Bytes of records in a partition's log.", lambda log: log.size),
        "numlogsegments": ("Segments of a partition's log.", lambda log: len(log.segments)),
        "logstartoffset": ("The first offset that is still there.", lambda log: log.log_start_offset),
        "logendoffset": ("The offset that the next record gets.", lambda log: log.log_end_offset),
    }
    for name, (meaning, value) in values.items():
        yield gauge(f"kafka_log_log_{name}", meaning, per_log(value), "topic", "partition")


def _groups() -> Iterator[MetricFamily]:
    manager = "kafka_coordinator_group_groupmetadatamanager_numgroups"

    def states(sources: MetricSources) -> Iterable[str]:
        return (group.state.value for group in sources.groups.groups())

    yield gauge(manager, "Groups coordinated here.", lambda sources: len(list(sources.groups.groups())))
    for state in ("Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Dead"):
        name, meaning = f"{manager}{state.lower()}", f"Groups coordinated here in the state {state}."
        yield tally(name, meaning, states, state.__eq__)
