"""Brokers of the kit with their files on the machine's disk: killed, restarted, full and slow, as with files in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sordini.testing import Kafka
from sordini.testing.brokers.broker_loop import BrokerClock, BrokerLoop
from sordini.testing.brokers.loop_processes import ProcessKilled
from sordini.testing.brokers.node import SiteOptions
from sordini.testing.brokers.real_disk import Directory
from sordini.testing.brokers.site import Site


def cluster_in(directory: Path, brokers: int = 1) -> Kafka:
    return Kafka(Site(brokers, {}, 0, SiteOptions(str(directory))))


def open_below(directory: Path) -> list[str]:
    """The files below a directory that this process has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue  # The descriptor of this very listing.
        if target.startswith(str(directory)):
            found.append(target)
    return found


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Kafka]:
    with cluster_in(tmp_path) as made:
        yield made


def test_a_killed_broker_has_no_file_open_and_finds_its_files_again(single: Kafka, tmp_path: Path) -> None:
    orders = single.topic()
    single.produce(orders, ["one", "two"])
    assert (tmp_path / "broker-1" / f"{orders}-0" / "00000000000000000000.log").stat().st_size > 0
    assert open_below(tmp_path / "broker-1") != []
    single.brokers[0].kill()
    assert open_below(tmp_path / "broker-1") == []
    assert not (tmp_path / "broker-1" / ".kafka_cleanshutdown").exists()
    single.brokers[0].start()
    single.assert_produced(orders, ["one", "two"])
    single.brokers[0].stop()
    assert (tmp_path / "broker-1" / ".kafka_cleanshutdown").exists()
    assert open_below(tmp_path / "broker-1") == []


def test_a_cluster_is_found_again_in_its_directory(tmp_path: Path) -> None:
    with cluster_in(tmp_path, 3) as first:
        orders = first.topic(replicas=3)
        first.produce(orders, ["one"])
    assert open_below(tmp_path) == []
    with cluster_in(tmp_path, 3) as again:
        again.assert_produced(orders, ["one"])


def test_a_full_disk_refuses_records_until_there_is_room(single: Kafka) -> None:
    orders = single.topic()
    single.brokers[0].disk_full()
    settings = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 50, "log_level": 0}
    producer = Producer({"bootstrap.servers": single.bootstrap_servers, **settings})
    producer.produce(orders, b"one")
    assert producer.flush(0.3) == 1
    single.brokers[0].heal_disk()
    assert producer.flush(20) == 0
    single.assert_produced(orders, ["one"])


def test_a_synchronisation_takes_as_long_as_the_test_says_and_a_kill_does_not_wait_for_it(single: Kafka) -> None:
    orders = single.topic(config={"flush.messages": 1})
    single.brokers[0].slow_disk(60_000)
    producer = Producer({"bootstrap.servers": single.bootstrap_servers, "log_level": 0})
    producer.produce(orders, b"one")
    assert producer.flush(0.3) == 1
    before = time.monotonic()
    single.brokers[0].kill()
    single.brokers[0].heal_disk()
    single.brokers[0].start()
    assert time.monotonic() - before < 30
    assert producer.flush(20) == 0
    assert [record.text for record in single.records(orders)][:1] == ["one"]


async def test_nothing_of_a_dead_process_writes_and_its_threads_have_ended_before_the_next_one(tmp_path: Path) -> None:
    loop = BrokerLoop()
    process = loop.process("broker 1")
    disk = Directory(str(tmp_path), BrokerClock(loop)).opened_by(process)
    file = disk.open(str(tmp_path / "log"), create=True)
    begun, go_on, written = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        go_on.wait()
        file.append([b"late"])
        written.append(True)

    done = disk.offload(work)
    begun.wait()
    process.kill()
    assert open_below(tmp_path) != [], "a thread may still use the file"
    threading.Timer(0.05, go_on.set).start()
    await disk.released()
    await done
    assert (written, (tmp_path / "log").read_bytes(), open_below(tmp_path)) == ([], b"", [])
    for use in (lambda: file.append([b"x"]), lambda: disk.open(str(tmp_path / "log")), lambda: disk.remove("x")):
        with pytest.raises(ProcessKilled):
            use()
    loop.close()
