"""What a member does with its partitions: it reads on from the committed offsets, and commits what it has read."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import PartitionData
from sordini.protocol.types import TopicPartition
from tests.sim.brokers import Brokers
from tests.sim.client import Connection
from tests.sim.consumer import records_in
from tests.sim.group_history import GroupHistory, Tenure
from tests.sim.offsets_client import OffsetsClient, Who


class Reading:
    """The positions of one member. What it consumes is in the history, and which partitions it was given."""

    def __init__(
        self, name: str, group_id: str, brokers: Brokers, offsets: OffsetsClient, history: GroupHistory
    ) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.unread: set[TopicPartition] = set()
        """Its own, whose committed offsets are yet to be read."""
        self._name = name
        self._group_id = group_id
        self._brokers = brokers
        self._offsets = offsets
        self._history = history

    def take(self, partitions: Iterable[TopicPartition], who: Who) -> None:
        """These partitions are given to the member."""
        now = self._brokers.network.loop.time()
        for partition in partitions:
            self.unread.add(partition)
            tenure = Tenure(self._group_id, partition, who.member_id, who.generation_id, now)
            self._history.tenures.append(tenure)

    def keep_only(self, owned: Collection[TopicPartition]) -> None:
        self.positions = {each: position for each, position in self.positions.items() if each in owned}
        self.unread.intersection_update(owned)

    def forget(self) -> None:
        self.positions.clear()
        self.unread.clear()

    async def read_committed(self, connection: Connection, version: int, who: Who | None, reader: Who) -> bool:
        """Read the committed offsets of what is new; `who` is said in the request. Whether there was an answer."""
        found = await self._offsets.fetch(connection, version, sorted(self.unread), who, reader)
        for partition, offset in found.items():
            if partition in self.unread:
                self.unread.discard(partition)
                self.positions[partition] = max(offset, 0)
        return bool(found)

    async def poll(self, connection: Connection) -> None:
        """Read on in every partition, also in those that are to be given up."""
        if self.positions:
            asked = dict(self.positions)
            for partition, data in await self._brokers.fetch(connection, asked):
                self._consume(partition, data, asked[partition])

    def _consume(self, partition: TopicPartition, data: PartitionData, asked: int) -> None:
        code, network = ErrorCode(data.error_code), self._brokers.network
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            network.trace.note(self._name, "out of range", partition, asked, data.high_watermark)
            if partition in self.positions:
                self.positions[partition] = 0  # After a power loss that took records; nothing is ever deleted.
        if code or self.positions.get(partition) != asked:
            return
        consumed = self._history.consumed.setdefault((self._group_id, partition), set())
        for record in records_in(str(partition), data.records if data.records is not None else memoryview(b"")):
            if record.offset >= asked:
                consumed.add(record.offset)
                self.positions[partition] = record.offset + 1
