"""Messages as lines of a transcript: fields in the order of their definition, those at their default left out.

What differs from run to run has a name instead: topic ids, ids of members, hosts, times, hashes of metadata.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator
from itertools import product
from typing import Any

from sordini.broker.groups.consumer.machine.topic_hashes import group_hash, topic_hash
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId
from tests.compat.situations.definitions import Definitions, Field, Message, Values

_HOSTS = {"host", "client_host"}
_TIMES = {
    "assignment_timestamp",
    "timestamp",
    "commit_timestamp",
    "expire_timestamp",
    "current_state_timestamp",
}
_METADATA_VERSION = ("ConsumerGroupRegularExpressionValue", "version")
"""The offset in the metadata log up to which topics were considered."""
_EMBEDDED = {
    "assignment": "ConsumerProtocolAssignment",
    "member_assignment": "ConsumerProtocolAssignment",
    "metadata": "ConsumerProtocolSubscription",
    "member_metadata": "ConsumerProtocolSubscription",
    "subscription": "ConsumerProtocolSubscription",
}
"""What a client of the classic protocol packs into fields of bytes."""
_CLASSIC_MEMBER = re.compile(r"(?<=-)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MADE_ID = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])")
"""What a coordinator makes for a member that has no id: a UUID in Base64."""
_NUMBERED = re.compile(r"M\d+")
_PLAIN = re.compile(r"[\w.*:/-]+")


class Names:
    """What stands in the transcript for values that are new in each run."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._named: dict[str, str] = {}
        self._topics: dict[bytes, str] = {}
        self._hashes: dict[int, str] = {}
        self._hashed: dict[str, set[int]] = {}

    def name_topic(self, topic_id: bytes, name: str) -> None:
        self._topics[topic_id] = name
        self._named[base64.urlsafe_b64encode(topic_id).decode().rstrip("=")] = f"ID-OF-{name}"

    def name(self, value: str, name: str) -> None:
        self._named.setdefault(value, name)

    def topic(self, topic_id: bytes) -> str:
        if topic_id == bytes(16):
            return "ZERO"
        return self._topics.get(topic_id, topic_id.hex())

    def hash_topic(self, full_name: str, topic_id: bytes, partitions: int) -> None:
        """The topic has so many partitions, beside those that it had before: a group's hash may be of it."""
        hashed = topic_hash(full_name, TopicId(topic_id), [()] * partitions)
        self._hashed.setdefault(full_name, set()).add(hashed)

    def hash(self, value: int) -> str:
        """A number for each hash; one that is of no set of these topics is called so."""
        if value not in self._hashes and value not in self._expected():
            return "OF-OTHER-TOPICS"
        return self._hashes.setdefault(value, f"H{len(self._hashes) + 1}")

    def _expected(self) -> Iterator[int]:
        choices = [(None, *sorted(hashes)) for _, hashes in sorted(self._hashed.items())]
        return (group_hash([each for each in chosen if each is not None]) for chosen in product(*choices))

    def text(self, text: str) -> str:
        for value, name in self._named.items():
            text = text.replace(value, name)
        text = _MADE_ID.sub(lambda found: self._numbered(found[0]), text)
        numbered = _CLASSIC_MEMBER.sub(lambda found: self._numbered(found[0]), text)
        return numbered.replace(f"{self.prefix}-", "")

    def _numbered(self, value: str) -> str:
        count = sum(_NUMBERED.fullmatch(name) is not None for name in self._named.values())
        return self._named.setdefault(value, f"M{count + 1}")


class Rendering:
    """Values of messages as text, by their definitions."""

    def __init__(self, definitions: Definitions, names: Names) -> None:
        self._definitions = definitions
        self.names = names
        self.is_counting = False
        """Partitions of assignments are counted, where it is chance who gets which."""

    def message(self, name: str, version: int, values: Values) -> str:
        message = self._definitions.messages[name]
        return self._fields(message, message.fields, version, values)

    def _fields(self, message: Message, fields: list[Field], version: int, values: Values) -> str:
        parts = []
        for field in fields:
            if not field.versions[0] <= version <= field.versions[1] or field.name not in values:
                continue
            value = values[field.name]
            if value == field.default:
                continue
            parts.append(f"{field.name}={self._value(message, field, field.kind, version, value)}")
        return ", ".join(parts)

    def _value(self, message: Message, field: Field, kind: str, version: int, value: Any) -> str:
        if value is None:
            return "null"
        if self.is_counting and kind == "[]int32":
            return f"[{len(value)} of them]"
        if kind.startswith("[]"):
            value = self._in_order(value)
            if (field.name, message.name) in _SETS:
                value = sorted(value)
            inner = [self._value(message, field, kind[2:], version, item) for item in value]
            return f"[{', '.join(inner)}]"
        if isinstance(value, dict):
            value = _partitions_in_order(value)
            return "{" + self._fields(message, message.structs[kind], version, value) + "}"
        if field.name == "producer_id" and value >= 0:
            return "PRODUCER"
        if field.name == "error_code":
            return ErrorCode(value).name
        if field.name in _TIMES:
            return "SOME" if value > 0 else str(value)
        if field.name == "metadata_hash":
            return self.names.hash(value) if value else "0"
        if (message.name, field.name) == _METADATA_VERSION:
            return "SOME"
        if kind == "uuid":
            return self.names.topic(value)
        if isinstance(value, bytes):
            return self._bytes(field.name, value)
        if isinstance(value, str):
            return "HOST" if field.name in _HOSTS and value else self._string(value)
        return str(value).lower()

    def _in_order(self, rows: list[Any]) -> list[Any]:
        """Rows by the names of their topics, members or groups, as hash maps and sets have no order."""
        if not rows or not isinstance(rows[0], dict):
            return rows
        if _NUMBERED_BY in rows[0]:
            return sorted(rows, key=lambda row: int(row[_NUMBERED_BY]))
        keys = [key for key in _ORDERED_BY if key in rows[0]]

        def place(row: Values) -> list[str]:
            return [self._place(row[key]) for key in keys]

        return sorted(rows, key=place)

    def _place(self, value: Any) -> str:
        return self.names.topic(value) if isinstance(value, bytes) else self.names.text(value or "")

    def _string(self, value: str) -> str:
        text = self.names.text(value)
        return text if _PLAIN.fullmatch(text) else '"' + text.replace('"', '\\"') + '"'

    def _bytes(self, name: str, value: bytes) -> str:
        kind = _EMBEDDED.get(name)
        if kind is not None and len(value) >= 2:
            version = struct.unpack_from(">h", value)[0]
            if 0 <= version <= self._definitions.messages[kind].newest:
                try:
                    inner = self._definitions.decode(kind, version, value[2:])
                except ValueError:
                    return f"0x{value.hex()}"
                return f"v{version}{{{self.message(kind, version, inner)}}}"
        return f"0x{value.hex()}"


_ORDERED_BY = ("topic_name", "name", "topic", "topic_id", "group_instance_id", "member_id", "group_id")
_SETS = {
    ("subscribed_topic_names", "ConsumerGroupDescribeResponse"),
    ("subscribed_topic_names", "ShareGroupDescribeResponse"),
}
_NUMBERED_BY = "partition_index"
"""What rows are put in order by, if they have it."""


def _partitions_in_order(value: Values) -> Values:
    """The numbers of partitions in their order, and what belongs to each of them."""
    partitions, epochs = value.get("partitions"), value.get("assignment_epochs")
    if not partitions or not all(isinstance(number, int) for number in partitions):
        return value
    if epochs:
        pairs = sorted(zip(partitions, epochs, strict=True))
        return {**value, "partitions": [pair[0] for pair in pairs], "assignment_epochs": [pair[1] for pair in pairs]}
    return {**value, "partitions": sorted(partitions)}
