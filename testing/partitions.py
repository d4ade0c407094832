"""The records and offsets of partitions, as the kit's own client writes and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.aborted_transactions import Aborted
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.returned_records import returned_batches
from sordini.testing.own_client import TEMPORARY, KitError, OwnClient
from sordini.testing.records import KitRecord, kit_record

START: Final = -2
END: Final = -1
"""The offsets of a partition that `offsets` can ask for."""
FETCH_BYTES: Final = 1 << 22


class Partitions:
    """The partitions of a cluster's topics."""

    def __init__(self, client: OwnClient) -> None:
        self._client = client

    def numbers(self, topic: str) -> Sequence[int]:
        """Raises KitError for an unknown topic."""
        row = self._client.metadata(topic).topics[0]
        if row.error_code:
            raise KitError(f"topic {topic!r}: {ErrorCode(row.error_code).name}")
        return sorted(one.partition_index for one in row.partitions)

    def append(self, topic: str, partition: int, records: Sequence[Record], acks: int) -> int:
        """Append one batch; the offset of its first record. Raises KitError."""
        data = [PartitionProduceData(index=partition, records=memoryview(build_batch(records)))]
        request = ProduceRequest(
            acks=acks, timeout_ms=20_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        )

        def appended() -> int | None:
            response = self._client.ask(request, self._client.leader(topic, partition))
            row = response.responses[0].partition_responses[0]
            if row.error_code in TEMPORARY:
                return None
            _check(row.error_code, topic, partition)
            return int(row.base_offset)

        offset: int = self._client.wait(appended, f"partition {partition} of topic {topic!r} takes records")
        return offset

    def delete_all(self, topic: str) -> None:
        """Delete the records below each high watermark."""
        for partition, end in self.offsets(topic, END).items():
            rows = [DeleteRecordsPartition(partition_index=partition, offset=end)]
            request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=20_000)
            row = self._client.ask(request, self._client.leader(topic, partition)).topics[0].partitions[0]
            _check(row.error_code, topic, partition)

    def offsets(self, topic: str, timestamp: int) -> dict[int, int]:
        """`START` or `END` of each partition."""
        found = {}
        for partition in self.numbers(topic):
            rows = [ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=rows)])

            def asked(request: Any = request, partition: int = partition) -> Any:
                row = self._client.ask(request, self._client.leader(topic, partition)).topics[0].partitions[0]
                return None if row.error_code in TEMPORARY else row

            row = self._client.wait(asked, f"offsets of topic {topic!r} can be read")
            _check(row.error_code, topic, partition)
            found[partition] = row.offset
        return found

    def read(self, topic: str, partition: int, *, is_committed: bool) -> list[KitRecord]:
        """All records up to the high watermark, or to the last stable offset."""
        found: list[KitRecord] = []
        offset = self.offsets(topic, START)[partition]
        end = self.offsets(topic, END)[partition]
        while offset < end:
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                isolation_level=int(is_committed), topics=[FetchTopic(topic=topic, partitions=[wanted])]
            )
            row = self._client.ask(request, self._client.leader(topic, partition)).responses[0].partitions[0]
            _check(row.error_code, topic, partition)
            aborted = [Aborted(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
            batches = list(returned_batches(row.records or b"", offset, aborted))
            if not batches:
                break  # What is left belongs to open transactions.
            offset = batches[-1].next_offset
            found += [kit_record(topic, partition, one) for batch in batches for one in batch.records]
        return found


def _check(code: int, topic: str, partition: int) -> None:
    if code:
        raise KitError(f"partition {partition} of topic {topic!r}: {ErrorCode(code).name}")
