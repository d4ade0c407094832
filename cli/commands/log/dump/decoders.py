"""The records of the internal topics in the text of Apache Kafka 3.9.1: its --offsets-decoder and
--transaction-log-decoder, and its decoders of plain keys and values.

An offset or a group is shown as JSON with the fields of its version; a consumer's subscription and assignment are
decoded if possible. Record types that only newer group coordinators write are not decoded.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from sordini.broker.groups.machine import records as group_records
from sordini.broker.groups.machine.state import GroupValue, MemberValue
from sordini.broker.transactions import records as transaction_records
from sordini.cli.commands.log.dump.kafka_log import Parser, RecordText
from sordini.cli.commands.log.dump.kafka_text import java_text
from sordini.cli.commands.log.dump.scala_set import set_order
from sordini.protocol.codecs import decode
from sordini.protocol.consumer_assignment import NEWEST, ConsumerAssignment
from sordini.protocol.consumer_subscription import ConsumerSubscription
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.records.versioned import Damaged

DELETED: Final = "<DELETE>"
_VERSION: Final = struct.Struct(">h")
_ESCAPE: Final = re.compile(r"\\(\\|u00[0-9a-f]{2})")


def offsets_parser(offset: int, key: bytes | None, value: bytes | None) -> RecordText:
    """The text of a record of __consumer_offsets. Raises BrokerError for a record without a key."""
    if key is None:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"no key at offset {offset}, which every record here has")
    read = group_records.read_key(key)
    match read:
        case group_records.OffsetKey(group, topic, partition):
            fields: dict[str, Any] = {"group": group, "topic": topic, "partition": partition}
            opened = None if value is None else _offset(value)
        case group_records.GroupKey(group):
            fields = {"group": group}
            opened = None if value is None else _group(value)
        case group_records.UnknownGroupKey(version):
            return f"Unknown record type {version} at offset {offset}, skipping.", None
        case Damaged(reason):
            return f"Error at offset {offset}, skipping. {reason}", None
    if isinstance(opened, Damaged):
        return f"Error at offset {offset}, skipping. {opened.reason}", None
    shown_key = _json({"type": str(_version(key)), "data": fields})
    return shown_key, DELETED if value is None else _json({"version": str(_version(value)), "data": opened})


def _offset(value: bytes) -> dict[str, Any] | Damaged:
    read = group_records.read_offset(value)
    if isinstance(read, Damaged):
        return read
    version = _version(value)
    fields: dict[str, Any] = {"offset": read.offset}
    if version >= 3:
        fields["leaderEpoch"] = read.leader_epoch
    fields |= {"metadata": read.metadata, "commitTimestamp": read.committed_ms}
    if version == 1:
        fields["expireTimestamp"] = -1 if read.expires_ms is None else read.expires_ms
    return fields


def _group(value: bytes) -> dict[str, Any] | Damaged:
    read = group_records.read_group(value)
    if isinstance(read, Damaged):
        return read
    version = _version(value)
    fields: dict[str, Any] = {
        "protocolType": read.protocol_type,
        "generation": read.generation_id,
        "protocol": read.protocol_name,
        "leader": read.leader_id,
    }
    if version >= 2:
        fields["currentStateTimestamp"] = read.state_since_ms
    fields["members"] = [_member(member, read, version) for member in read.members]
    return fields


def _member(member: MemberValue, group: GroupValue, version: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"memberId": member.member_id}
    if version >= 3:
        fields["groupInstanceId"] = member.group_instance_id
    fields |= {"clientId": member.client_id, "clientHost": member.client_host}
    if version >= 1:
        fields["rebalanceTimeout"] = member.rebalance_timeout_ms
    is_consumer = group.protocol_type == "consumer"
    return fields | {
        "sessionTimeout": member.session_timeout_ms,
        "subscription": _opened(member.subscription, _subscription) if is_consumer else _base64(member.subscription),
        "assignment": _opened(member.assignment, _assignment) if is_consumer else _base64(member.assignment),
    }


def _opened(data: bytes, opener: Callable[[memoryview, int], dict[str, Any]]) -> Any:
    """The decoded fields, or the bytes in base64 if they cannot be decoded."""
    if len(data) < _VERSION.size or not 0 <= _version(data) <= NEWEST:
        return _base64(data)
    try:
        return opener(memoryview(data), _version(data))
    except WireError:
        return _base64(data)


def _subscription(data: memoryview, version: int) -> dict[str, Any]:
    read, _ = decode(ConsumerSubscription, version, data, _VERSION.size)
    fields: dict[str, Any] = {"topics": list(read.topics), "userData": _base64(read.user_data)}
    if version >= 1:
        fields["ownedPartitions"] = _listed(read.owned_partitions)
    if version >= 2:
        fields["generationId"] = read.generation_id
    if version >= 3:
        fields["rackId"] = read.rack_id
    return fields


def _assignment(data: memoryview, version: int) -> dict[str, Any]:
    read, _ = decode(ConsumerAssignment, version, data, _VERSION.size)
    return {"assignedPartitions": _listed(read.topics), "userData": _base64(read.user_data)}


def _listed(topics: Any) -> list[dict[str, Any]]:
    return [{"topic": one.topic, "partitions": list(one.partitions)} for one in topics]


def _base64(data: bytes | memoryview | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _json(value: Any) -> str:
    """JSON as Java's library writes it: no blanks, control characters in upper-case hexadecimal."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _ESCAPE.sub(lambda found: f"\\{found[1]}" if found[1] == "\\" else f"\\u00{found[1][3:].upper()}", text)


def _version(data: bytes) -> int:
    return int(_VERSION.unpack_from(data)[0])


def transactions_parser(offset: int, key: bytes | None, value: bytes | None) -> RecordText:
    """The text of a record of __transaction_state. Raises BrokerError if it is not one."""
    read = Damaged("no key") if key is None else transaction_records.read_key(key)
    match read:
        case transaction_records.UnknownTransactionKey(version):
            return f"unknown::version={version}", ""
        case Damaged(reason):
            raise BrokerError(ErrorCode.INVALID_RECORD, f"the key at offset {offset}: {reason}")
    shown_key = f"transaction_metadata::transactionalId={read.transactional_id}"
    if value is None:
        return shown_key, DELETED
    found = transaction_records.read_value(value)
    if isinstance(found, Damaged):
        raise BrokerError(ErrorCode.INVALID_RECORD, f"the value at offset {offset}: {found.reason}")
    partitions = ",".join(f"{topic}-{partition}" for topic, partition in set_order(found.partitions))
    return shown_key, (
        f"producerId:{found.producer_id},producerEpoch:{found.producer_epoch},state={found.state_name},"
        f"partitions=[{partitions}],txnLastUpdateTimestamp={found.last_update_ms},txnTimeoutMs={found.timeout_ms}"
    )


Decoder = Callable[[bytes], str]


def _number(size: int) -> Decoder:
    def read(data: bytes) -> str:
        if len(data) < size:
            raise BrokerError(ErrorCode.INVALID_RECORD, f"{len(data)} bytes are too few for a number of {size}")
        return str(int.from_bytes(data[:size], "big", signed=True))

    return read


DECODERS: Final[dict[str, Decoder]] = {
    "StringDecoder": java_text,
    "IntegerDecoder": _number(4),
    "LongDecoder": _number(8),
}
"""Apache Kafka's decoders, by the last part of the class name."""


def parser_of(key_decoder: Decoder, value_decoder: Decoder) -> Parser:
    """A parser with these decoders for keys and values."""

    def parse(_offset: int, key: bytes | None, value: bytes | None) -> RecordText:
        return None if key is None else key_decoder(key), None if value is None else value_decoder(value)

    return parse
