"""The metrics endpoint of a running broker, scraped while clients are at work."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.group_consumer import joined, poll_until
from tests.support.wire_client import PATIENCE_S, Client

Start = Callable[..., SordiniProcess]
Labels = frozenset[tuple[str, str]]

SOURCES = Path(__file__).resolve().parents[2] / ".import"
ROUNDS = 200


class Scraper:
    """Prometheus, as far as it matters here."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def scrape(self) -> dict[tuple[str, Labels], float]:
        status, text = self.get("/metrics")
        assert status == 200
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def key(name: str, **labels: str) -> tuple[str, Labels]:
    return name, frozenset(labels.items())


END = key("sordini_log_end_offset", topic="orders", partition="0")
PRODUCED = key("sordini_requests_total", api="PRODUCE", version="9")
TIMED = key("sordini_request_duration_seconds_count", api="PRODUCE")
RECEIVED, SENT = key("sordini_received_bytes_total"), key("sordini_sent_bytes_total")


def test_a_scrape_beside_a_producer_never_goes_back_and_ends_with_the_truth(start_sordini: Start) -> None:
    port = free_port()
    broker, scraper = start_sordini({"sordini.metrics.port": port}), Scraper(port)
    batch = a_batch()
    failures: list[BaseException] = []

    def produce() -> None:
        try:
            with Client("127.0.0.1", broker.port) as client:
                client.create("orders")
                for _ in range(ROUNDS):
                    assert client.produce("orders", [batch])[0].error_code == 0
        except BaseException as failure:  # noqa: BLE001 - handed to the test's own thread.
            failures.append(failure)

    producer = threading.Thread(target=produce)
    producer.start()
    counters = (END, PRODUCED, TIMED, RECEIVED, SENT)
    before = dict.fromkeys(counters, 0.0)
    while producer.is_alive():
        found = scraper.scrape()
        now = {counter: found.get(counter, before[counter]) for counter in counters}
        assert [counter for counter in counters if now[counter] < before[counter]] == []
        before = now
    producer.join()
    assert failures == []
    found = scraper.scrape()
    assert found[END] == 3 * ROUNDS
    assert found[key("sordini_high_watermark", topic="orders", partition="0")] == 3 * ROUNDS
    assert found[key("sordini_log_size_bytes", topic="orders", partition="0")] == ROUNDS * len(batch)
    assert found[PRODUCED] == found[TIMED] == ROUNDS
    # The producer has hung up: what its connection carried is not forgotten.
    assert found[RECEIVED] > ROUNDS * len(batch)
    assert found[RECEIVED] > found[SENT] > ROUNDS * 20, "a batch is longer than its answer"
    assert found[key("sordini_connections", listener="PLAINTEXT")] == 0
    assert found[key("sordini_connections_accepted_total", listener="PLAINTEXT")] >= 1
    assert found[key("sordini_partitions_led")] == 1
    assert found[key("sordini_controller_active")] == 1
    assert found[key("process_resident_memory_bytes")] > 10_000_000
    for _ in range(1_000):  # The first beat may be due yet.
        if scraper.scrape()[key("sordini_loop_checks_total")] > 0:
            return
    pytest.fail("the loop did not beat")


def test_a_fetch_that_waited_is_timed_with_its_waiting(start_sordini: Start) -> None:
    port = free_port()
    broker, scraper = start_sordini({"sordini.metrics.port": port}), Scraper(port)
    with Client("127.0.0.1", broker.port) as client:
        client.create("orders")
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=300, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[partition])]
        )
        client.ask(ApiKey.FETCH, 12, request)
    found = scraper.scrape()
    assert found[key("sordini_request_duration_seconds_count", api="FETCH")] == 1
    assert found[key("sordini_request_duration_seconds_bucket", api="FETCH", le="0.134217728")] == 0
    assert found[key("sordini_request_duration_seconds_bucket", api="FETCH", le="+Inf")] == 1


def test_the_lag_of_a_group_is_exported(start_sordini: Start) -> None:
    port = free_port()
    broker, scraper = start_sordini({"sordini.metrics.port": port, "offsets.topic.num.partitions": 1}), Scraper(port)
    with Client("127.0.0.1", broker.port) as client:
        client.create("orders")
        for _ in range(3):
            client.produce("orders", [a_batch()])
        client.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["billing"]))
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=4)
        commit = OffsetCommitRequest(
            group_id="billing", topics=[OffsetCommitRequestTopic(name="orders", partitions=[row])]
        )

        def is_committed() -> bool:
            answer = client.ask(ApiKey.OFFSET_COMMIT, 8, commit)
            return answer.topics[0].partitions[0].error_code == 0

        broker.wait_until(is_committed, PATIENCE_S, "commit an offset")
    found = scraper.scrape()
    assert found[key("sordini_group_committed_offset", group="billing", topic="orders", partition="0")] == 4
    assert found[key("sordini_group_lag", group="billing", topic="orders", partition="0")] == 5
    assert found[key("sordini_groups", state="Empty")] == 1
    assert found[key("sordini_group_members", group="billing")] == 0


def test_a_consumer_group_is_counted_by_its_state_with_members_and_lag(start_sordini: Start) -> None:
    port = free_port()
    settings = {
        "sordini.metrics.port": port,
        "offsets.topic.num.partitions": 1,
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.assignment.interval.ms": 0,
    }
    broker, scraper = start_sordini(settings), Scraper(port)
    with Client("127.0.0.1", broker.port) as client:
        client.create("orders", partitions=2)
        client.produce("orders", [a_batch()])

        def measured(name: str, **labels: str) -> float | None:
            return scraper.scrape().get(key(name, **labels))

        of_first = {"group": "billing", "topic": "orders", "partition": "0"}
        with joined(broker.bootstrap, "billing", "orders") as first:
            poll_until([first], lambda: measured("sordini_group_committed_offset", **of_first) == 3)
            assert measured("sordini_group_lag", **of_first) == 0
            assert measured("sordini_groups", state="Stable") == measured("sordini_group_members", group="billing") == 1
            with joined(broker.bootstrap, "billing", "orders") as second:
                # The first one is not polled, and gives nothing up.
                poll_until([second], lambda: measured("sordini_groups", state="Reconciling") == 1)
                assert measured("sordini_group_members", group="billing") == 2
                poll_until([first, second], lambda: measured("sordini_groups", state="Stable") == 1)
        assert measured("sordini_groups", state="Empty") == 1
        assert measured("sordini_group_members", group="billing") == 0
        client.produce("orders", [a_batch()])
        assert measured("sordini_group_lag", **of_first) == 3
        waits_s = measured("sordini_group_lag_seconds", **of_first)
        assert waits_s is not None
        assert waits_s >= 0
        assert measured("sordini_group_partitions_omitted") == 0


def test_a_broker_is_alive_and_ready_and_the_other_paths_stay(start_sordini: Start) -> None:
    port = free_port()
    broker, scraper = start_sordini({"sordini.metrics.port": port}), Scraper(port)
    assert [scraper.get(path) for path in ("/healthz", "/readyz", "/health")] == [(200, "ok\n")] * 3
    with Client("127.0.0.1", broker.port) as client:
        client.create("orders")
        assert scraper.get("/readyz") == (200, "ok\n")
    assert scraper.get("/readyz/")[0] == 404


def test_apache_kafkas_names_are_left_out_where_they_are_switched_off(start_sordini: Start) -> None:
    for is_on in ("true", "false"):
        port = free_port()
        start_sordini({"sordini.metrics.port": port, "sordini.metrics.kafka.names": is_on})
        names = {name for name, _ in Scraper(port).scrape()}
        assert any(name.startswith("kafka_") for name in names) == (is_on == "true")
        assert any(name.startswith("sordini_") for name in names)


def test_hostile_peers_of_the_endpoint_disturb_neither_it_nor_the_broker(start_sordini: Start) -> None:
    port = free_port()
    broker, scraper = start_sordini({"sordini.metrics.port": port}), Scraper(port)
    with ExitStack() as stack:
        client = stack.enter_context(Client("127.0.0.1", broker.port))
        for beginning in [b"GET /metr", b"", b"\x00" * 100, b"GET /metrics HTTP/1.1\r\nA: "] * 10:
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            peer.sendall(beginning)
        flood = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
        with pytest.raises(OSError, match=r"."):  # Refused long before all of it is taken.
            flood.sendall(b"GET /metrics HTTP/1.1\r\nA: " + b"a" * 100_000_000)
        assert scraper.get("/health") == (200, "ok\n")
        assert scraper.scrape()[key("sordini_uptime_seconds")] >= 0
        assert scraper.get("/")[0] == 404
        assert client.create("orders") == [0]
    assert "error" not in broker.output()


def test_a_taken_metrics_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = SordiniProcess(tmp_path, {"sordini.metrics.port": port})
        broker.launch()
        assert broker.wait_for_exit(PATIENCE_S) == 1
    assert broker.output().splitlines()[-1] == (
        f"sordini: sordini.metrics.port: cannot listen on 127.0.0.1 port {port}: Address already in use"
    )


def test_prometheus_client_is_imported_only_where_it_is_used() -> None:
    script = "import sys, sordini.broker.process.broker_process; assert 'prometheus_client' not in sys.modules"
    ended = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCES)}, check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
