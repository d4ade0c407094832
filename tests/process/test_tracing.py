"""Traces of slow requests: what a collector receives of a real broker, and what a bad collector does to it: nothing."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.outside.ports import free_port
from tests.outside.processes import ProcessError, SordiniProcess
from tests.support.builders import a_batch
from tests.support.polling import eventually
from tests.support.trace_collector import Manner, TraceCollector
from tests.support.wire_client import Client

MILLISECOND = 1_000_000


class Traced:
    """A broker that sends traces to a collector."""

    def __init__(self, directory: Path, collector: TraceCollector, **overrides: object) -> None:
        self.collector = collector
        self.metrics_port = free_port()
        keys = {f"sordini.tracing.{key.replace('_', '.')}": value for key, value in overrides.items()}
        self.broker = SordiniProcess(
            directory,
            {
                "sordini.metrics.port": self.metrics_port,
                "sordini.tracing.endpoint": collector.url,
                "group.initial.rebalance.delay.ms": 1_200,
                **keys,
            },
        )

    def count(self, outcome: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "sordini_traced_requests_total" and sample.labels["outcome"] == outcome:
                    return float(sample.value)
        raise AssertionError(f"no count of {outcome}")

    def wait_for(self, outcome: str, at_least: float) -> None:
        eventually(lambda: self.count(outcome) >= at_least or None, f"{at_least} requests with {outcome}")


@pytest.fixture
def collector() -> Iterator[TraceCollector]:
    with TraceCollector() as made:
        yield made


@pytest.fixture
def traced(tmp_path: Path, collector: TraceCollector) -> Iterator[Callable[..., Traced]]:
    started: list[SordiniProcess] = []

    def start(**overrides: object) -> Traced:
        made = Traced(tmp_path / "broker", collector, **overrides)
        started.append(made.broker.start())
        return made

    yield start
    for broker in started:
        broker.stop()


def join(client: Client) -> JoinGroupResponse:
    """A new member of a new group waits for others, as long as group.initial.rebalance.delay.ms says."""
    request = JoinGroupRequest(
        group_id="readers",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )

    def joined() -> JoinGroupResponse | None:
        client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["readers"]))
        answer: JoinGroupResponse = client.ask(ApiKey.JOIN_GROUP, 2, request, "reader")
        return None if answer.error_code else answer

    return eventually(joined, "the group has a coordinator")


def fetch(topic: str, index: int, *, max_wait_ms: int) -> FetchRequest:
    row = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[row])])


def test_of_all_requests_only_the_slow_one_is_traced_with_the_wait_for_members(
    traced: Callable[..., Traced], collector: TraceCollector
) -> None:
    broker = traced()
    with Client("127.0.0.1", broker.broker.port) as client:
        assert client.create("orders", partitions=2) == [0]
        client.produce("orders", [a_batch()])
        began_s = time.monotonic()
        client.ask(ApiKey.FETCH, 12, fetch("orders", 1, max_wait_ms=1_500), "idle")
        assert time.monotonic() - began_s > 1.4, "it waits, but no longer than it requests: it is not slow"
        joined = join(client)
    root, handle, wait = collector.trace("JOIN_GROUP v2")
    assert (handle.name, wait.name) == ("handle", "wait for members")
    assert root.ended_ns - root.began_ns >= 1_000 * MILLISECOND
    assert (handle.began_ns, handle.ended_ns, wait.ended_ns) == (root.began_ns, wait.began_ns, root.ended_ns)
    assert abs(root.ended_ns / 1e9 - time.time()) < 60
    assert root.is_server
    assert not root.is_error
    assert root.trace_id == handle.trace_id == wait.trace_id
    assert root.attributes["messaging.client.id"] == "reader"
    assert root.attributes["messaging.consumer.group.name"] == "readers"
    assert root.attributes["sordini.principal"] == "User:ANONYMOUS"
    assert root.attributes["sordini.listener"] == "PLAINTEXT"
    assert root.attributes["client.address"] == "127.0.0.1"
    assert root.attributes["sordini.response.bytes"] > len(joined.member_id)
    assert root.resource["service.name"] == "sordini"
    assert root.resource["service.instance.id"] == "1001"
    assert collector.paths == {"/v1/traces"}
    broker.wait_for("exported", 1)
    slow = {span.attributes.get("messaging.client.id") for span in collector.spans if not span.parent_id}
    # A busy machine may make others slow, but not the fetch: its wait does not count.
    assert "idle" not in slow


def test_with_a_threshold_of_0_every_request_has_a_trace_with_its_partitions_and_errors(
    traced: Callable[..., Traced], collector: TraceCollector, tmp_path: Path
) -> None:
    secret = tmp_path / "headers"
    secret.write_text("Authorization=Bearer sesame\nX-Scope=1\n")
    broker = traced(slow_request_ms=0, requests_per_second_max=10_000, headers_file=secret)
    with Client("127.0.0.1", broker.broker.port) as client:
        assert client.create("orders", partitions=3) == [0]
        client.produce("orders", [a_batch(), a_batch()])
        client.produce("orders", [a_batch()])
        client.produce("orders", [a_batch()])  # The prepared way.
        missing = TopicProduceData(name="none", partition_data=[PartitionProduceData(index=0, records=a_batch())])
        client.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1, topic_data=[missing]), "lost")
        client.ask(ApiKey.FETCH, 12, fetch("orders", 0, max_wait_ms=0), "reader")
        client.ask(ApiKey.FETCH, 12, fetch("orders", 2, max_wait_ms=300), "idle")
        client.ask(ApiKey.FETCH, 12, fetch("orders", 2, max_wait_ms=300), "idle")  # The prepared way.
    both, handle = collector.trace("PRODUCE v9", sordini_partitions_count=2)
    assert handle.name == "handle"
    assert both.attributes["sordini.partitions"] == ["orders-0", "orders-1"]
    assert both.attributes["sordini.produce.acks"] == -1
    assert both.attributes["sordini.request.bytes"] > 2 * len(a_batch())
    (lost, _) = collector.trace("PRODUCE v9", messaging_client_id="lost")
    assert lost.is_error
    assert lost.attributes["sordini.errors"] == ["UNKNOWN_TOPIC_OR_PARTITION none-0"]
    (read, _) = collector.trace("FETCH v12", messaging_client_id="reader")
    assert read.attributes["sordini.partitions"] == ["orders-0"]
    assert read.attributes["sordini.response.bytes"] > 3 * len(a_batch())
    root, _, wait = collector.trace("FETCH v12", messaging_client_id="idle")
    assert wait.name == "wait in purgatory"
    assert root.attributes["sordini.partitions"] == ["orders-2"]
    # The time of a fetch begins with its arrival, which may be a while before the wait.
    assert root.ended_ns - root.began_ns >= 290 * MILLISECOND
    assert root.began_ns <= wait.began_ns < wait.ended_ns <= root.ended_ns
    broker.wait_for("exported", 8)
    produced = [span for span in collector.spans if span.name == "PRODUCE v9"]
    idle_ones = [span for span in collector.spans if span.attributes.get("messaging.client.id") == "idle"]
    assert (len(produced), len(idle_ones)) == (4, 2)
    assert {headers["authorization"] for headers in collector.headers} == {"Bearer sesame"}
    secret.write_text("Authorization=Bearer other\n")
    with Client("127.0.0.1", broker.broker.port) as client:
        client.metadata("orders")
    collector.trace("METADATA v12")
    assert collector.headers[-1]["authorization"] == "Bearer other", "the file is read again"
    assert "sesame" not in broker.broker.output()


def test_requests_beyond_the_rate_are_counted_and_dropped(
    traced: Callable[..., Traced], collector: TraceCollector
) -> None:
    broker = traced(slow_request_ms=0, requests_per_second_max=1)
    with Client("127.0.0.1", broker.broker.port) as client:
        for _ in range(200):
            client.metadata()
    assert broker.count("over_rate") > 100
    broker.wait_for("exported", 1)
    assert broker.count("exported") < 100


@contextmanager
def undisturbed(broker: Traced) -> Iterator[None]:
    """Clients are served as ever meanwhile, and the broker stops in time."""
    with Client("127.0.0.1", broker.broker.port) as client:
        assert client.create("orders") == [0]
        yield
        for _ in range(100):
            assert client.produce("orders", [a_batch()])[0].error_code == 0
    assert broker.broker.stop() == 0


@pytest.mark.parametrize("manner", [Manner.REFUSE, Manner.HANG])
def test_a_collector_that_refuses_or_hangs_disturbs_nothing(
    traced: Callable[..., Traced], collector: TraceCollector, manner: Manner
) -> None:
    collector.manner = manner
    broker = traced(slow_request_ms=0, requests_per_second_max=10_000)
    with undisturbed(broker), Client("127.0.0.1", broker.broker.port) as client:
        eventually(lambda: bool(collector.headers) or None, "an export that is not answered")
        for _ in range(1_000):
            client.metadata()
        if manner is Manner.HANG:
            assert broker.count("queue_full") > 500
        else:
            broker.wait_for("failed", 100)
            lines = [line for line in broker.broker.output().splitlines() if "traces not exported" in line]
            assert len(lines) == 1, lines
            assert "403" in lines[0]
    assert not collector.spans


def test_a_collector_that_comes_back_gets_spans_again_and_the_log_says_so(
    traced: Callable[..., Traced], collector: TraceCollector
) -> None:
    collector.manner = Manner.REFUSE
    broker = traced(slow_request_ms=0)
    with undisturbed(broker), Client("127.0.0.1", broker.broker.port) as client:
        client.metadata()
        broker.wait_for("failed", 1)
        collector.manner = Manner.KEEP
        client.ask(ApiKey.FETCH, 12, fetch("orders", 0, max_wait_ms=0), "again")
        collector.trace("FETCH v12", messaging_client_id="again")
        broker.broker.wait_until(lambda: "traces exported again" in broker.broker.output(), 20, "log it")


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"endpoint": "grpc://127.0.0.1:4317"}, "http://host:port"),
        ({"endpoint": "http://user:secret@127.0.0.1"}, "http://host:port"),
        ({"headers_file": "/nonexistent/headers"}, "No such file or directory"),
    ],
)
def test_a_configuration_that_cannot_be_used_refuses_the_start(
    traced: Callable[..., Traced], overrides: dict[str, str], reason: str
) -> None:
    with pytest.raises(ProcessError, match=reason):
        traced(**overrides)
