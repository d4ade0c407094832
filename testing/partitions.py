"""The records and offsets of partitions, as the kit's own client writes and reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sordini.client.record_requests import EARLIEST, LATEST, fetch_request, offsets_request, produce_request
from sordini.packs.packed_records import KitRecord, kit_record
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.returned_records import ReturnedBatch, returned_batches
from sordini.protocol.types import TopicPartition
from sordini.testing.own_client import TEMPORARY, KitError, OwnClient

START: Final = EARLIEST
END: Final = LATEST
"""The offsets of a partition that `offsets` can ask for."""
PRODUCE_TIMEOUT_MS: Final = 20_000
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
        batch = build_batch(records)
        request = produce_request({TopicPartition(topic, partition): batch}, PRODUCE_TIMEOUT_MS, acks=acks)
        row = self._asked(
            topic, partition, request, lambda response: response.responses[0].partition_responses[0], "takes records"
        )
        return int(row.base_offset)

    def delete_all(self, topic: str) -> None:
        """Delete the records below each high watermark."""
        for partition, end in self.offsets(topic, END).items():
            rows = [DeleteRecordsPartition(partition_index=partition, offset=end)]
            request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=20_000)
            self._asked(topic, partition, request, _first_of_topics, "deletes records")

    def offsets(self, topic: str, timestamp: int, *, is_committed: bool = False) -> dict[int, int]:
        """`START` or `END` of each partition; with `is_committed` the end is the last stable offset."""
        found = {}
        for partition in self.numbers(topic):
            times = {TopicPartition(topic, partition): timestamp}
            request = offsets_request(times, isolation_level=int(is_committed))
            row = self._asked(topic, partition, request, _first_of_topics, "says its offsets")
            found[partition] = row.offset
        return found

    def read(self, topic: str, partition: int, *, is_committed: bool) -> list[KitRecord]:
        """All records up to the high watermark, or to the last stable offset."""
        found: list[KitRecord] = []
        offset = self.offsets(topic, START)[partition]
        end = self.offsets(topic, END, is_committed=is_committed)[partition]
        while offset < end:
            for batch in self._fetched(topic, partition, offset, is_committed=is_committed):
                offset = batch.next_offset
                found += [kit_record(topic, partition, one) for one in batch.records]
        return found

    def _fetched(self, topic: str, partition: int, offset: int, *, is_committed: bool) -> list[ReturnedBatch]:
        """Batches from an offset on, of which there are some: a new leader may not know yet how far it may serve."""
        wanted = {TopicPartition(topic, partition): offset}
        request = fetch_request(wanted, FETCH_BYTES, isolation_level=int(is_committed))

        def fetched() -> list[ReturnedBatch] | None:
            row = self._asked(topic, partition, request, _first_of_responses, "can be read")
            return list(returned_batches(row.records or b"", offset, row.aborted_transactions or ())) or None

        what = f"partition {partition} of topic {topic!r} has records from offset {offset} on"
        found: list[ReturnedBatch] = self._client.wait(fetched, what)
        return found

    def _asked(self, topic: str, partition: int, request: Any, row_of: Callable[[Any], Any], predicate: str) -> Any:
        """What its leader responds of a partition, asked again while the error is temporary. Raises KitError."""

        def asked() -> Any:
            row = row_of(self._client.ask(request, self._client.leader(topic, partition)))
            return None if row.error_code in TEMPORARY else row

        row = self._client.wait(asked, f"partition {partition} of topic {topic!r} {predicate}")
        if row.error_code:
            raise KitError(f"partition {partition} of topic {topic!r}: {ErrorCode(row.error_code).name}")
        return row


def _first_of_responses(response: Any) -> Any:
    return response.responses[0].partitions[0]


def _first_of_topics(response: Any) -> Any:
    return response.topics[0].partitions[0]
