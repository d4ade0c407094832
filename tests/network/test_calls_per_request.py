"""How many Python calls a request of one record costs: a bound that no load of the machine can disturb."""

import struct

import pytest

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.served_apis import APIS
from sordini.storage.disk import SystemDisk
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.profiled import profiled
from tests.support.slice_calls import SliceCalls
from tests.support.socket_bench import Bench, receive, send
from tests.support.unit_broker import a_broker, topic_id_of


def a_request(version, acks, batch):
    rows = [PartitionProduceData(index=0, records=memoryview(batch))]
    topic = TopicProduceData(name="orders", topic_id=topic_id_of("orders"), partition_data=rows)
    message = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])
    frame = request_header(APIS[ApiKey.PRODUCE], version, 5, "client") + codecs.encode(message, version)
    return struct.pack(">i", len(frame)) + frame


def plain(_sequence):
    return a_batch(1, value=bytes(100))


def idempotent(sequence):
    return an_idempotent_batch(1, sequence=sequence, value=bytes(100))


def lz4(_sequence):
    return a_batch(1, value=bytes(100), codec=3)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize(("batch", "bound"), [(plain, 14), (lz4, 14), (idempotent, 16)])
async def test_a_produce_of_one_record_costs_few_python_calls(tmp_path, version, acks, batch, bound):
    """From the readable socket to the sent answer; the general way takes 57 to 75."""
    (tmp_path / "logs").mkdir()
    async with a_broker({"log.dirs": str(tmp_path / "logs")}, SystemDisk()) as broker:
        await broker.lead("orders")
        async with Bench(service=broker.parts.dispatcher) as bench:
            client, counter = await bench.connect(), SliceCalls()
            for sequence in range(4):
                counter.calls.clear()
                with profiled(counter):
                    await send(client, a_request(version, acks, batch(sequence)))
                    size = struct.unpack(">i", await receive(client, 4))[0]
                assert len(await receive(client, size)) == size
            assert broker.parts.replicas.partition("orders", 0).log.log_end_offset == 4
    assert 10 < len(counter.calls) <= bound, counter.calls
