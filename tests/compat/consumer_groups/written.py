"""The records about groups in `__consumer_offsets`, as they were written: batch by batch."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

from tests.compat.situations.definitions import Definitions, Values
from tests.compat.situations.stored import StoredRecord, stored_records
from tests.compat.situations.wire import Broker

OFFSETS_TOPIC = "__consumer_offsets"
_GROUP_OF_OLD_KEYS = "group"


class Written(NamedTuple):
    """One record; value is None in a tombstone."""

    is_first_of_batch: bool
    kind: str
    key: Values
    value_version: int
    value: Values | None

    @property
    def group_id(self) -> str:
        return str(self.key.get("group_id", self.key.get(_GROUP_OF_OLD_KEYS)))


class OffsetsReader:
    """Reads the one partition of the offsets topic on from where it was left."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._position = 0
        self._kinds = _kinds(broker.definitions)

    def skip(self) -> None:
        """Leave out what is there already."""
        rows = [{"partition_index": 0, "timestamp": -1}]
        answer = self._broker.ask("ListOffsets", 5, replica_id=-1, topics=[{"name": OFFSETS_TOPIC, "partitions": rows}])
        self._position = answer["topics"][0]["partitions"][0]["offset"]

    def read(self) -> list[Written]:
        found: list[Written] = []
        while batches := self._fetch():
            found += self._decoded(batches)
        return found

    def _fetch(self) -> bytes:
        partition = {"partition": 0, "fetch_offset": self._position, "partition_max_bytes": 50_000_000}
        topics = [{"topic": OFFSETS_TOPIC, "partitions": [partition]}]
        answer = self._broker.ask(
            "Fetch", 11, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=50_000_000, topics=topics
        )
        return answer["responses"][0]["partitions"][0]["records"] or b""

    def _decoded(self, data: bytes) -> list[Written]:
        found = [record for record in stored_records(data) if record.end > self._position]
        self._position = max([self._position, *(record.end for record in found)])
        return [self._written(record) for record in found if not record.is_control]

    def _written(self, record: StoredRecord) -> Written:
        number = struct.unpack_from(">h", record.key)[0]
        kind = self._kinds[number]
        about = self._broker.definitions.decode(f"{kind}Key", 0, record.key[2:])
        if record.value is None:
            return Written(record.is_first_of_batch, kind, about, 0, None)
        version = struct.unpack_from(">h", record.value)[0]
        value = self._broker.definitions.decode(f"{kind}Value", version, record.value[2:])
        return Written(record.is_first_of_batch, kind, about, version, value)


def in_order(records: list[Written], named: Callable[[str], str]) -> list[Written]:
    """With records that follow each other in a batch in the order of their keys: hash maps have none.

    Those are records of one kind, and all deletions of a member beside all those of another one.
    `named`: what stands for an id of a member that is new in each run.
    """

    def place(record: Written) -> list[str]:
        return [named(str(value)) for value in record.key.values()]

    ordered: list[Written] = []
    for batch in _batches(records):
        runs = [list(run) for _kind, run in groupby(batch, key=lambda record: (record.kind, record.value is None))]
        rows = _members_in_order([record for run in runs for record in sorted(run, key=place)], place)
        ordered += [record._replace(is_first_of_batch=index == 0) for index, record in enumerate(rows)]
    return ordered


def _members_in_order(rows: list[Written], place: Callable[[Written], list[str]]) -> list[Written]:
    """With the members of which everything is deleted at one place in the order of their ids."""
    found: list[Written] = []
    for is_deleted, run in groupby(rows, key=lambda record: record.value is None and "member_id" in record.key):
        members = [list(of_one) for _place, of_one in groupby(run, key=place)]
        are_apart = len({str(place(of_one[0])) for of_one in members}) == len(members)
        if is_deleted and are_apart:
            members.sort(key=lambda of_one: place(of_one[0]))
        found += [record for of_one in members for record in of_one]
    return found


def _batches(records: list[Written]) -> list[list[Written]]:
    batches: list[list[Written]] = []
    for record in records:
        if record.is_first_of_batch or not batches:
            batches.append([])
        batches[-1].append(record)
    return batches


def _kinds(definitions: Definitions) -> dict[int, str]:
    """The names of the kinds of records by the number that a key begins with."""
    keys = (message for name, message in definitions.messages.items() if name.endswith("Key"))
    return {message.api_key: message.name.removesuffix("Key") for message in keys}
