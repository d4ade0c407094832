"""What coordinators read back: consumers' metadata and assignments, and the records of their two topics.

input = uint8 0: judged alone, 1: loaded from the log by the next coordinator | uint8 topic
        | records: uint16 size of key | key | uint16 size of value | value
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any, Final

from sordini.broker.groups.machine import records as group_records
from sordini.broker.groups.machine.records import GroupValue, MemberValue
from sordini.broker.groups.machine.state import CommittedOffset
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.transactions import records as transaction_records
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC, TransactionValue
from sordini.cli.commands.log.dump import decoders
from sordini.cli.commands.log.dump import group_records as shown_groups
from sordini.cli.commands.log.dump import transaction_records as shown
from sordini.cli.commands.log.dump.items import Item
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.consumer_assignment import has_user_data, read_assignment, written_assignment
from sordini.protocol.consumer_subscription import read_subscribed_topics, read_subscription
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.list_groups import ListGroupsRequest
from sordini.protocol.messages.list_transactions import ListTransactionsRequest
from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.types import TopicPartition
from tests.fuzz.brokers import Brokers
from tests.fuzz.target import Broken
from tests.support.unit_broker import UnitBroker, answer_of, read_answer

ALONE, LOADED = range(2)
TOPICS: Final = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
LOADS_MAX: Final = 20
"""Of one broker; then there is a new one."""
TIMERS_MAX: Final = 8
LOADED_SHARE: Final = 0.02


def lines_of(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while len(data) - position >= 4:
        parts = []
        for _ in range(2):
            size = int.from_bytes(data[position : position + 2], "big")
            parts.append(data[position + 2 : position + 2 + size])
            position += 2 + size
        yield parts[0], parts[1]


def line(key: bytes, value: bytes) -> bytes:
    return struct.pack(">H", len(key)) + key + struct.pack(">H", len(value)) + value


class Coordination:
    name = "coordination"
    share = 0.08
    instrumented = (
        "sordini.broker.groups.machine",
        "sordini.broker.transactions.records",
        "sordini.broker.coordinators",
        "sordini.cli.commands.log.dump",
        "sordini.protocol.consumer_assignment",
        "sordini.protocol.consumer_subscription",
    )

    def __init__(self) -> None:
        entries = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
        self._brokers = Brokers(entries, LOADS_MAX, _lead)

    def close(self) -> None:
        self._brokers.close()

    def draw(self, chance: random.Random) -> bytes:
        how = LOADED if chance.random() < LOADED_SHARE else ALONE
        topic = chance.randrange(2)
        made = [self._drawn(topic, chance) for _ in range(chance.choice((1, 1, 2, 5)))]
        return bytes((how, topic)) + b"".join(line(key, value) for key, value in made)

    def _drawn(self, topic: int, chance: random.Random) -> tuple[bytes, bytes]:
        if topic:
            partitions = tuple(TopicPartition("orders", number) for number in range(chance.randrange(3)))
            state = chance.randrange(8) if partitions else 0
            value = TransactionValue(chance.randrange(9), chance.choice((0, 5, 32767)), 60_000, state, partitions, 5, 5)
            version = chance.randrange(2)
            return transaction_records.transaction_key("tx"), transaction_records.transaction_value(value, version)
        if chance.random() < 0.4:
            committed = CommittedOffset(chance.randrange(9), chance.choice((-1, 3)), "about", 1_000)
            return group_records.offset_key("g", "orders", 0), group_records.offset_value(committed)
        subscription = struct.pack(">hihsi", 0, 1, 1, b"o", -1)
        assignment = written_assignment(0, [("orders", [0, 1])])
        member = MemberValue("m", None, "c", "/h", 1_000, 1_000, subscription, assignment)
        group = GroupValue("consumer", 1, "range", "m", 5, (member,))
        return group_records.group_key("g"), group_records.group_value(group)

    def run(self, data: bytes) -> int:
        if len(data) < 2:
            return 1
        topic = data[1] % 2
        lines = list(lines_of(data[2:]))
        for key, value in lines:
            (self._transaction if topic else self._group)(key, value)
            self._consumer(value)
            self._shown(topic, key, value)
        if data[0] == LOADED and lines:
            self._brokers.run(lambda broker: self._loaded(broker, topic, lines))
        return max(len(lines), 1)

    def _group(self, key: bytes, value: bytes) -> None:
        match group_records.read_key(key):
            case group_records.OffsetKey(group, topic, partition):
                again = group_records.read_key(group_records.offset_key(group, topic, partition))
                if again != (group, topic, partition):
                    raise Broken(f"the key of an offset is {again} when written again")
            case group_records.GroupKey(group):
                if group_records.read_key(group_records.group_key(group)) != (group,):
                    raise Broken("the key of a group is another one when written again")
        offset = group_records.read_offset(value)
        if not isinstance(offset, Damaged):
            again = group_records.read_offset(group_records.offset_value(offset))
            if isinstance(again, Damaged) or (again.offset, again.metadata) != (offset.offset, offset.metadata):
                raise Broken(f"{offset} is {again} when written again")
        found = group_records.read_group(value)
        if not isinstance(found, Damaged):
            written = group_records.group_value(found)
            if isinstance(group_records.read_group(written), Damaged):
                raise Broken(f"{found} is damaged when written again")

    def _transaction(self, key: bytes, value: bytes) -> None:
        read = transaction_records.read_key(key)
        if isinstance(read, transaction_records.TransactionKey):
            written = transaction_records.transaction_key(read.transactional_id)
            if transaction_records.read_key(written) != read:
                raise Broken("a transactional id is another one when written again")
        found = transaction_records.read_value(value)
        if not isinstance(found, Damaged):
            again = transaction_records.read_value(transaction_records.transaction_value(found, 1))
            if isinstance(again, Damaged) or set(again.partitions) != set(found.partitions):
                raise Broken(f"{found} is {again} when written again")

    def _consumer(self, value: bytes) -> None:
        assigned = read_assignment(value)
        if assigned is not None and assigned != sorted(assigned):
            raise Broken("an assignment is not in order")
        read_subscribed_topics(value)
        read_subscription(value)
        has_user_data(value)

    def _shown(self, topic: int, key: bytes, value: bytes) -> None:
        """What `sordini log dump` and Apache Kafka's form of it make of a record."""
        parser = decoders.transactions_parser if topic else decoders.offsets_parser
        for parts in ((key, value), (key, None), (None, value)):
            try:
                parser(7, *parts)
            except BrokerError as refused:
                if refused.code != ErrorCode.INVALID_RECORD:
                    raise
        item = Item("record", {"key": key, "value": value, "offset": 7, "timestamp": 1})
        (shown.decoded if topic else shown_groups.decoded)(item)

    async def _loaded(self, broker: UnitBroker, topic: int, lines: list[tuple[bytes, bytes]]) -> int:
        """The next coordinator loads them, and serves."""
        name = TOPICS[topic]
        partition = broker.parts.replicas.partition(name, 0)
        batch = build_batch([Record(number, 1_000, key, value) for number, (key, value) in enumerate(lines)])
        buffer = memoryview(bytearray(batch))
        partition.append(CheckedBatches(buffer, [(0, read_header(buffer))]), 0, all_replicas=False)
        epoch = partition.leader_epoch + 1
        broker.parts.replicas.resign_all()
        await broker.lead(OFFSETS_TOPIC, epoch=epoch)
        await broker.lead(TRANSACTIONS_TOPIC, epoch=epoch)
        await broker.settled()
        listed = await _asked(broker, ApiKey.LIST_GROUPS, 3, ListGroupsRequest())
        transactions = await _asked(broker, ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest())
        if listed.error_code or transactions.error_code:
            raise Broken(f"not served after the load: {listed.error_code}, {transactions.error_code}")
        failures = [fields for event, fields in broker.log.at("error") if event != "damaged records skipped"]
        if failures:
            raise Broken(f"the load failed: {failures[0]}")
        return 1


async def _asked(broker: UnitBroker, key: ApiKey, version: int, request: Any) -> Any:
    """The response, which may wait for sessions that are due."""
    served = broker.serve(key, version, request)
    if not isinstance(served, DelayedResponse):
        assert served is not None
        return read_answer(key, version, served)
    for _ in range(TIMERS_MAX):
        await broker.settled()
        if served.is_answered:
            return answer_of(served, key, version)
        broker.timers.fire()
    raise Broken(f"{key.name} is never answered after the load")


async def _lead(broker: UnitBroker) -> None:
    await broker.lead(OFFSETS_TOPIC)
    await broker.lead(TRANSACTIONS_TOPIC)
    await broker.settled()
