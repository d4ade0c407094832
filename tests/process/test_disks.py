"""Disks that fill up or fail under a running broker."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.outside.failing import failing
from tests.outside.processes import SordiniProcess
from tests.process.small_disk import OnASmallDisk, fill, need_small_disks
from tests.support.builders import a_batch
from tests.support.wire_client import Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

LARGE = a_batch(value=bytes(20_000))
NO_ROOM = re.compile(r"log directory full.* directory=(\S+) free_bytes=(\d+)")
ROOM_AGAIN = re.compile(r"log directory has free space again.* directory=(\S+) refused=(\d+)")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[OnASmallDisk]:
    need_small_disks(tmp_path)
    with OnASmallDisk(tmp_path / "broker") as broker:
        yield broker


def test_a_full_disk_refuses_the_other_serves_on_and_room_heals_it(small_disk: OnASmallDisk, connect: Connect) -> None:
    client = connect(small_disk)
    assert client.create("orders", partitions=2) == [0]
    full = int(next(small_disk.view.glob("orders-*")).name.removeprefix("orders-"))
    client.produce("orders", [LARGE, LARGE])
    filler = fill(small_disk.view)
    for _ in range(3):
        rows = client.produce("orders", [LARGE, LARGE])
        assert rows[full].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert rows[1 - full].error_code == 0
    filler.unlink()
    rows = client.produce("orders", [LARGE, LARGE])
    assert [row.error_code for row in rows] == [0, 0]
    assert [rows[full].base_offset, rows[1 - full].base_offset] == [3, 12]
    assert len(client.fetch("orders", full)) == 2 * len(LARGE)
    # Each write is an append that succeeds, until one of them is seen to have.
    small_disk.wait_until(
        lambda: (
            not client.produce("orders", [a_batch(1), a_batch(1)]) or ROOM_AGAIN.search(small_disk.output()) is not None
        ),
        10,
        "say that there is room",
    )
    (found,) = NO_ROOM.findall(small_disk.output())
    assert found[0] == str(small_disk.small)
    assert int(found[1]) < 2 * len(LARGE)
    assert ROOM_AGAIN.findall(small_disk.output()) == [(str(small_disk.small), "3")]
    assert small_disk.stop() == 0


def test_topics_that_preallocate_do_not_fill_the_disk(small_disk: OnASmallDisk, connect: Connect) -> None:
    client = connect(small_disk)
    settings = [
        CreatableTopicConfig(name="preallocate", value="true"),
        CreatableTopicConfig(name="segment.bytes", value="50000"),
    ]
    for name in ("orders", "bills"):
        topic = CreatableTopic(name=name, num_partitions=60, replication_factor=1, configs=settings)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
        assert client.ask(ApiKey.CREATE_TOPICS, 7, request).topics[0].error_code == 0
    found = os.statvfs(small_disk.view)
    assert found.f_bavail * found.f_frsize > 400_000, "of 1 MiB, each partition's files having taken some"
    batch = a_batch(value=bytes(1000))
    assert {row.error_code for row in client.produce("orders", [batch] * 60)} == {0}
    assert small_disk.stop() == 0


def directory_of(broker: SordiniProcess, partition: str) -> Path:
    (found,) = broker.directory.glob(f"*/{partition}")
    return found


def test_a_log_directory_that_fails_goes_offline_and_the_other_serves_on(
    start_sordini: Start, connect: Connect, tmp_path: Path
) -> None:
    broker = start_sordini({"log.dirs": f"{tmp_path}/sordini-0/data,{tmp_path}/sordini-0/other"})
    client = connect(broker)
    assert client.create("orders", partitions=2) == [0]
    client.produce("orders", [LARGE, LARGE])
    lost = directory_of(broker, "orders-1")
    assert lost.parent != directory_of(broker, "orders-0").parent
    with failing(broker, "pwrite64", lost / "00000000000000000000.log"):
        codes = [row.error_code for row in client.produce("orders", [LARGE, LARGE])]
    assert codes == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    codes = [row.error_code for row in client.produce("orders", [LARGE, LARGE])]
    assert codes == [0, ErrorCode.KAFKA_STORAGE_ERROR], "permanently, and for this partition only"
    (line,) = [line for line in broker.output().splitlines() if "log directory is offline" in line]
    assert str(lost.parent) in line
    assert client.create("bills") == [0]
    client.produce("bills", [LARGE])
    assert directory_of(broker, "bills-0").parent != lost.parent
    assert broker.stop() == 0
    assert not (lost.parent / ".kafka_cleanshutdown").exists(), "what failed is not trusted at the next start"
    broker.start()
    client = connect(broker)
    assert [row.base_offset for row in client.produce("orders", [LARGE, LARGE])] == [9, 3]


def test_deleting_a_topic_of_a_failed_directory_ends_nothing(
    start_sordini: Start, connect: Connect, tmp_path: Path
) -> None:
    broker = start_sordini({"log.dirs": f"{tmp_path}/sordini-0/data,{tmp_path}/sordini-0/other"})
    client = connect(broker)
    client.create("orders", partitions=2)
    lost = directory_of(broker, "orders-1")
    with failing(broker, "pwrite64", lost / "00000000000000000000.log"):
        client.produce("orders", [LARGE, LARGE])
    client.delete("orders")
    assert client.create("bills") == [0]
    assert client.produce("bills", [LARGE])[0].error_code == 0
    assert lost.exists()


def test_the_last_log_directory_takes_the_broker_with_it_and_it_says_so(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini()
    client = connect(broker)
    client.create("orders")
    path = broker.data_directory / "orders-0" / "00000000000000000000.log"
    with failing(broker, "pwrite64", path):
        with contextlib.suppress(ConnectionError):  # Whether the answer or the end came first.
            client.produce("orders", [LARGE])
        assert broker.wait_for_exit(20) == 1
    assert "log directory is offline" in broker.output()
    assert "Traceback" not in broker.output()
    broker.start()
    assert connect(broker).produce("orders", [LARGE])[0].error_code == 0


def test_a_partition_of_a_log_directory_missing_at_startup_is_not_created_in_another_one(
    start_sordini: Start, connect: Connect, tmp_path: Path
) -> None:
    broker = start_sordini({"log.dirs": f"{tmp_path}/sordini-0/data,{tmp_path}/sordini-0/other"})
    client = connect(broker)
    client.create("orders", partitions=2)
    client.produce("orders", [LARGE, LARGE])
    lost = directory_of(broker, "orders-1")
    broker.stop()
    checkpoint = lost.parent / "recovery-point-offset-checkpoint"
    right = checkpoint.read_text()
    checkpoint.write_text("damaged")
    broker.start()
    client = connect(broker)
    codes = [row.error_code for row in client.produce("orders", [LARGE, LARGE])]
    assert codes[0] == 0
    assert codes[1] == ErrorCode.KAFKA_STORAGE_ERROR
    assert directory_of(broker, "orders-1") == lost
    assert client.create("bills", partitions=2) == [0], "what is new finds room in the other directory"
    broker.stop()
    checkpoint.write_text(right)
    broker.start()
    assert [row.base_offset for row in connect(broker).produce("orders", [LARGE, LARGE])] == [6, 3]
