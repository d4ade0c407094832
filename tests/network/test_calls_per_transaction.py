"""How many Python calls a transaction of one record costs its broker: bounds that no load of the machine can disturb."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.served_apis import APIS
from sordini.storage.disk import SystemDisk
from tests.support.profiled import profiled
from tests.support.slice_calls import SliceCalls
from tests.support.socket_bench import Bench, receive, send
from tests.support.transaction_requests import Producer, a_cluster_of_one, init, produce_request

TRANSACTIONS = 4
CALLS_MAX = {ApiKey.ADD_PARTITIONS_TO_TXN: 156, ApiKey.PRODUCE: 105, ApiKey.END_TXN: 286}
"""An end appends the decision, the marker and the completion; there were 365 calls for it once, and 182 to begin."""


def requests_of(producer: Producer, sequence: int) -> list[tuple[ApiKey, int, Any]]:
    """One transaction, as clients without KIP-890 part 2 send it."""
    begin = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    end = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    record = produce_request(producer, {0: sequence})
    return [(ApiKey.ADD_PARTITIONS_TO_TXN, 2, begin), (ApiKey.PRODUCE, 7, record), (ApiKey.END_TXN, 2, end)]


async def calls_of(client: socket.socket, key: ApiKey, version: int, request: Any) -> list[str]:
    frame = request_header(APIS[key], version, 5, "client") + codecs.encode(request, version)
    counter = SliceCalls()
    with profiled(counter):
        await send(client, struct.pack(">i", len(frame)) + frame)
        size = struct.unpack(">i", await receive(client, 4))[0]
    assert len(await receive(client, size)) == size
    return counter.calls


async def test_a_transaction_of_one_record_costs_few_python_calls(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    async with a_cluster_of_one({"log.dirs": str(tmp_path / "logs")}, SystemDisk()) as broker:
        producer = await init(broker)
        async with Bench(service=broker.parts.dispatcher) as bench:
            client = await bench.connect()
            for sequence in range(TRANSACTIONS):
                calls = {
                    key: await calls_of(client, key, version, request)
                    for key, version, request in requests_of(producer, sequence)
                }
            log = broker.parts.replicas.partition("orders", 0).log
            assert log.log_end_offset == 2 * TRANSACTIONS, "a record and a marker of each"
            assert broker.parts.transactions.transaction("t").state_name == "CompleteCommit"
    for key, listed in calls.items():
        assert 50 < len(listed) <= CALLS_MAX[key], (key, len(listed), listed)
