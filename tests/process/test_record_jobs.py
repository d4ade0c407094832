"""The dearest record sets against a real broker: a neighbour is served on, and children do the work and are bounded."""

from __future__ import annotations

import asyncio
import os
import select
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sordini.broker.records.jobs.child import MEMORY_BYTES_MAX
from sordini.broker.records.jobs.children import RecordWorkerProcesses
from sordini.broker.records.jobs.ports import WorkerLost
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.headers import request_header
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.jobs import CheckJob, SearchJob
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.protocol.served_apis import APIS
from tests.outside.processes import SordiniProcess
from tests.process.test_cleaning_children import PATIENCE_S, running
from tests.support import worst_batches
from tests.support.builders import RULES, a_batch
from tests.support.wire_client import Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]
SAYING = "import sys; sys.stdout.write('\\0\\0\\0\\2\\0\\0\\0\\0{}'); sys.stdout.flush(); sys.stdin.read()"
OPENER = "sordini.broker.records.jobs.child"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    """One for all attacks: it must outlive them."""
    with SordiniProcess(tmp_path_factory.mktemp("attacked")) as attacked:
        yield attacked


def a_check(records: bytes, **rules: Any) -> CheckJob:
    return CheckJob(memoryview(bytearray(records)), RULES._replace(**rules), worst_batches.TIMESTAMP, 9, 0)


def create(client: Client, topic: str, partitions: int = 1, **configs: str) -> None:
    rows = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    wanted = [CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=rows)]
    answer = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=wanted, timeout_ms=20_000))
    assert [row.error_code for row in answer.topics] == [0]


def a_produce(topic: str, *batches: bytes, acks: int = -1) -> ProduceRequest:
    rows = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    data = [TopicProduceData(name=topic, partition_data=rows)]
    return ProduceRequest(acks=acks, timeout_ms=20_000, topic_data=data)


def send(client: Client, key: ApiKey, version: int, request: Any) -> None:
    body = request_header(APIS[key], version, 1, "attack") + codecs.encode(request, version)
    client.socket.sendall(struct.pack(">i", len(body)) + body)


def served_meanwhile(attacker: Client, neighbour: Client) -> int:
    """How many requests of a neighbour are answered before the attacker's answer begins to come."""
    count = 0
    while not select.select([attacker.socket], [], [], 0)[0]:
        neighbour.ask(ApiKey.HEARTBEAT, 3, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
        count += 1
    return count


def test_a_neighbour_is_served_on_while_bombs_are_opened(broker: SordiniProcess, connect: Connect) -> None:
    attacker, neighbour = connect(broker), connect(broker)
    create(attacker, "dear", 20, cleanup_policy="compact", compression_type="gzip")
    before = children_of(broker)
    send(attacker, ApiKey.PRODUCE, 9, a_produce("dear", *[worst_batches.bomb()] * 20))
    assert served_meanwhile(attacker, neighbour) >= 20
    answer = answer_of(attacker, ApiKey.PRODUCE, 9)
    codes = {row.error_code for row in answer.responses[0].partition_responses}
    assert codes <= {0, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE}
    assert (before, len(children_of(broker))) == ([], 1), "a child is started when it is needed, and one for a request"
    assert attacker.produce("dear", [a_batch(key=b"k")])[0].error_code == 0


@pytest.mark.parametrize("codec", [worst_batches.NO_CODEC, worst_batches.ZSTD])
def test_a_neighbour_is_served_on_while_keyless_records_are_counted(
    codec: int, broker: SordiniProcess, connect: Connect
) -> None:
    attacker, neighbour = connect(broker), connect(broker)
    create(attacker, f"keyed{codec}", cleanup_policy="compact")
    send(attacker, ApiKey.PRODUCE, 9, a_produce(f"keyed{codec}", worst_batches.tiny_records(codec=codec, shapes=3)))
    assert served_meanwhile(attacker, neighbour) >= 5
    [row] = answer_of(attacker, ApiKey.PRODUCE, 9).responses[0].partition_responses
    if row.error_code == ErrorCode.MESSAGE_TOO_LARGE:  # On a slow machine they take more than a second.
        assert "processor time" in row.error_message
        return
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert len(row.record_errors) == 1_000
    assert f"{worst_batches.TINY_RECORDS[codec] - 1_000} more records" in row.error_message


def test_large_conversions_for_old_consumers_do_not_delay_other_clients(
    broker: SordiniProcess, connect: Connect
) -> None:
    attacker, neighbour = connect(broker), connect(broker)
    create(attacker, "old")
    assert attacker.produce("old", [worst_batches.tiny_records(100_000, codec=1)])[0].error_code == 0
    for version in (1, 3):
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2**31 - 1)
        fetch = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="old", partitions=[partition])])
        send(attacker, ApiKey.FETCH, version, fetch)
        assert served_meanwhile(attacker, neighbour) >= 5
        [row] = answer_of(attacker, ApiKey.FETCH, version).responses[0].partitions
        assert row.error_code == 0
        assert 0 < len(row.records) < 5 * 1024 * 1024


def test_a_time_is_looked_up_in_a_bomb_while_a_neighbour_is_served(broker: SordiniProcess, connect: Connect) -> None:
    attacker, neighbour = connect(broker), connect(broker)
    create(attacker, "dated", 2)
    batches = [worst_batches.tiny_records(300_000), worst_batches.endless_zstd(1024**3)]
    assert [row.error_code for row in attacker.produce("dated", batches)] == [0, 0]
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=worst_batches.TIMESTAMP) for index in range(2)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="dated", partitions=partitions)])
    send(attacker, ApiKey.LIST_OFFSETS, 7, request)
    served_meanwhile(attacker, neighbour)
    rows = answer_of(attacker, ApiKey.LIST_OFFSETS, 7).topics[0].partitions
    assert [(row.error_code, row.offset) for row in rows] == [(0, 0), (0, 0)]


def answer_of(client: Client, key: ApiKey, version: int) -> Any:
    from sordini.protocol.headers import read_response_header

    (size,) = struct.unpack(">i", client.receive(4))
    frame = memoryview(client.receive(size))
    _, position = read_response_header(APIS[key], version, frame)
    return codecs.decode(APIS[key].response, version, frame, position)[0]


def children_of(broker: SordiniProcess, command: str = OPENER) -> list[int]:
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = (directory / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == str(broker.pid) and command in (directory / "cmdline").read_text():
                found.append(int(directory.name))
        except OSError:
            continue
    return found


# The children themselves.


async def test_a_job_is_carried_out_and_the_child_is_used_again() -> None:
    children = RecordWorkerProcesses()
    try:
        done = await children.run(a_check(a_batch(codec=4), codec=1), 1_000)
        assert isinstance(done.outcome, CheckedBatches)
        assert done.outcome.batches[0][1].codec == 1
        [first] = running(OPENER)
        done = await children.run(SearchJob(a_batch(), 0, 0), 1_000)
        assert running(OPENER) == [first]
    finally:
        await children.close()
    assert running(OPENER) == []


async def test_a_job_that_takes_more_time_than_it_may_is_refused_and_its_child_lives() -> None:
    children = RecordWorkerProcesses()
    try:
        done = await children.run(a_check(worst_batches.tiny_records(codec=4, shapes=3), key_required=True), 50)
        assert isinstance(done.outcome, BrokerError)
        assert (done.outcome.code, "processor time" in str(done.outcome)) == (ErrorCode.MESSAGE_TOO_LARGE, True)
        assert done.cpu_ms > 0
        assert (children.died, len(running(OPENER))) == (0, 1)
    finally:
        await children.close()


async def test_a_job_that_takes_more_memory_than_it_may_is_refused_and_its_child_lives() -> None:
    children = RecordWorkerProcesses(patience_s=60.0)  # A gibibyte takes its time on a busy machine.
    try:
        bomb = worst_batches.endless_zstd(2 * MEMORY_BYTES_MAX)
        rules = {"check_compressed": True, "expanded_bytes_max": 4 * MEMORY_BYTES_MAX}
        done = await children.run(a_check(bomb, **rules), 60_000)
        assert isinstance(done.outcome, BrokerError)
        assert (done.outcome.code, "of memory" in str(done.outcome)) == (ErrorCode.MESSAGE_TOO_LARGE, True)
        assert (children.died, len(running(OPENER))) == (0, 1)
    finally:
        await children.close()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import time; time.sleep(1000)", "no answer after"),
        ("import os; os._exit(5)", "ended with status 5"),
        ("import sys; sys.stdout.write('x' * 100); sys.stdout.flush(); sys.stdin.read()", "answered with"),
        (SAYING.format("{}"), "malformed answer"),
        (SAYING.format("}{"), "invalid JSON"),
    ],
)
async def test_a_child_that_hangs_exits_or_answers_nonsense_is_killed_and_its_job_fails(script: str, why: str) -> None:
    children = RecordWorkerProcesses((sys.executable, "-c", f"{script}  # nonsense"), patience_s=0.5)
    with pytest.raises(WorkerLost, match=why):
        await children.run(a_check(a_batch()), 1_000)
    assert (children.died, running("# nonsense")) == (1, [])
    await children.close()


async def test_a_job_that_is_cancelled_takes_its_child_with_it() -> None:
    children = RecordWorkerProcesses((sys.executable, "-c", "import time; time.sleep(1000)  # dropped"))
    running_job = asyncio.create_task(children.run(a_check(a_batch()), 1_000))
    async with asyncio.timeout(PATIENCE_S):
        while not running("# dropped"):  # noqa: ASYNC110 - of another process there is no event.
            await asyncio.sleep(0.01)
    running_job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running_job
    await children.close()
    assert running("# dropped") == []


def test_no_child_outlives_its_broker(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini()
    client = connect(broker)
    create(client, "dear", cleanup_policy="compact")
    client.produce("dear", [worst_batches.bomb()])
    [child] = children_of(broker)
    broker.kill()
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split(")")[1][:3]:
        os.sched_yield()
