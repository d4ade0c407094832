"""What a reader takes of responses, and what a writer puts into batches: no connection is opened."""

from __future__ import annotations

from sordini.client.sockets import connect
from sordini.mirror.batches import extract
from sordini.mirror.cluster import Cluster
from sordini.mirror.figures import Figures
from sordini.mirror.plan import Access
from sordini.mirror.reader import Reader
from sordini.mirror.sessions import IdempotentSession
from sordini.mirror.writer import Sent, Writer
from sordini.protocol.messages.fetch import PartitionData
from sordini.protocol.records.batch import read_header
from sordini.protocol.types import TopicPartition
from tests.support.builders import a_batch

ORDERS = TopicPartition("orders", 0)


def a_cluster() -> Cluster:
    return Cluster(Access("east", (), connect))


async def test_of_two_responses_from_one_position_the_first_counts() -> None:
    """While a leader moves, the former one and the new one may both answer."""
    reader = Reader(a_cluster(), Figures(), None, print)
    reader.positions[ORDERS] = 0
    row = PartitionData(records=a_batch(3), high_watermark=3, last_stable_offset=3)
    for _ in range(2):
        await reader._take_partition(ORDERS, 0, row)
    (read,) = reader.inbox.take(1_000_000)
    assert read.extracted.next_offset == reader.positions[ORDERS] == 3


async def test_the_sequence_of_a_partition_s_batches_goes_on_with_their_records() -> None:
    session = IdempotentSession(a_cluster())
    session.producer_id, session.producer_epoch = 5, 1
    writer = Writer(a_cluster(), session)
    sequences = []
    for count in (3, 2, 1):
        (copy,) = extract(memoryview(bytearray(a_batch(count))), 0).copies
        sequences.append(read_header(writer.stamped(ORDERS, Sent(copy, None))).base_sequence)
    assert sequences == [0, 3, 5]
