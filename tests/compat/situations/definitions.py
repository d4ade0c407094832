"""Encode requests and decode answers from Apache Kafka's own message definitions.

The definitions are read out of the kafka-clients jar that the comparison needs anyway, so that the judge
of an answer shares no line of code with the broker it judges. Names are the definitions' names in
snake_case; values are plain int, bool, float, str, bytes, list and dict. Speed does not matter here.
"""

import json
import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Values = dict[str, Any]

_NUMBERS = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
    "bool": ">?",
}


_KINDS = ("Request.json", "Response.json", "Key.json", "Value.json")
_KINDS += ("ConsumerProtocolSubscription.json", "ConsumerProtocolAssignment.json")


def snake_case(name: str) -> str:
    """'ISRNodes' and 'IsrNodes' alike become 'isr_nodes'."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _versions(text: str) -> tuple[int, int]:
    if text == "none":
        return 1, 0
    if text.endswith("+"):
        return int(text[:-1]), 2**15
    low, _, high = text.partition("-")
    return int(low), int(high or low)


class Field(NamedTuple):
    """One field of a definition; a pair of versions is (first, last), empty when first > last."""

    name: str
    kind: str
    versions: tuple[int, int]
    nullable: tuple[int, int]
    tag: int | None
    tagged: tuple[int, int]
    flexible: tuple[int, int] | None
    default: Any

    def is_nullable(self, version: int) -> bool:
        return self.nullable[0] <= version <= self.nullable[1]

    def item(self) -> "Field":
        """The field as one element of its array: only the array itself may be null."""
        return self._replace(nullable=(1, 0))


Structs = dict[str, list[Field]]
_NO_TAGGED_STRUCT = b"\0"
"""What Apache Kafka writes into a tagged field whose structure is null, and whose definition says `null` by itself."""


class Message(NamedTuple):
    """A request or response definition with the structures it names."""

    name: str
    api_key: int
    flexible: tuple[int, int]
    newest: int
    fields: list[Field]
    structs: Structs

    def is_flexible(self, version: int) -> bool:
        return self.flexible[0] <= version <= self.flexible[1]


class Definitions:
    """Every message of a kafka-clients jar, by name ('ProduceRequest'), and what coordinators write from theirs."""

    def __init__(self, *jars: Path) -> None:
        self.messages: dict[str, Message] = {}
        for jar in jars:
            with zipfile.ZipFile(jar) as archive:
                self._read(archive)

    def _read(self, archive: zipfile.ZipFile) -> None:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(_KINDS):
                text = archive.read(name).decode()
                if '"validVersions": "none"' not in text:  # What was removed has a name but no fields any more.
                    message = _read_message(text)
                    self.messages[message.name] = message

    def encode(self, name: str, version: int, values: Values) -> bytes:
        """Bytes of a message's body. Fields left out take the definition's default."""
        message = self.messages[name]
        out = bytearray()
        _write_struct(out, message, message.fields, version, values)
        return bytes(out)

    def decode(self, name: str, version: int, body: bytes) -> Values:
        """The body as plain values. Raises ValueError when bytes are missing or left over."""
        message = self.messages[name]
        reader = Reader(body)
        values = _read_struct(reader, message, message.fields, version)
        if reader.position != len(body):
            raise ValueError(f"{name} v{version}: {len(body) - reader.position} bytes left over")
        return values


def _read_message(text: str) -> Message:
    raw = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    structs: Structs = {}
    fields = list(_read_fields(raw["fields"], structs))
    for common in raw.get("commonStructs", []):
        structs[common["name"]] = list(_read_fields(common["fields"], structs))
    newest = _versions(raw["validVersions"])[1]
    return Message(raw["name"], raw.get("apiKey", -1), _versions(raw["flexibleVersions"]), newest, fields, structs)


def _read_fields(raw_fields: list[Values], structs: Structs) -> Iterator[Field]:
    for raw in raw_fields:
        kind = raw["type"]
        if "fields" in raw:
            structs[kind.removeprefix("[]")] = list(_read_fields(raw["fields"], structs))
        own = raw.get("flexibleVersions")
        yield Field(
            name=snake_case(raw["name"]),
            kind=kind,
            versions=_versions(raw.get("versions", "0+")),
            nullable=_versions(raw.get("nullableVersions", "none")),
            tag=raw.get("tag"),
            tagged=_versions(raw.get("taggedVersions", "none")),
            flexible=None if own is None else _versions(own),
            default=_default(kind, "null" if "default" in raw and raw["default"] is None else raw.get("default")),
        )


def _default(kind: str, given: Any) -> Any:
    if given == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return given in (True, "true")
    if kind == "float64":
        return float(given or 0)
    if kind in _NUMBERS:
        return int(str(given), 0) if given is not None else 0
    simple = {"string": "", "bytes": b"", "records": None, "uuid": bytes(16)}
    if kind in simple:
        return given if given is not None else simple[kind]
    return {}


# --- writing ---------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """An unsigned base-128 number, low groups first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _write_struct(out: bytearray, message: Message, fields: list[Field], version: int, values: Values) -> None:
    unknown = set(values) - {field.name for field in fields}
    if unknown:
        raise KeyError(f"{message.name} has no field {sorted(unknown)}")
    tagged: list[tuple[int, bytes]] = []
    for field in fields:
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        value = values.get(field.name, field.default)
        if field.tagged[0] <= version <= field.tagged[1]:
            if value != field.default:
                inner = bytearray()
                _write_value(inner, message, field, field.kind, version, value)
                tagged.append((field.tag or 0, bytes(inner)))
        else:
            _write_value(out, message, field, field.kind, version, value)
    if message.is_flexible(version):
        out += varint(len(tagged))
        for tag, inner_bytes in sorted(tagged):
            out += varint(tag) + varint(len(inner_bytes)) + inner_bytes


def _write_length(out: bytearray, length: int, narrow: str, *, flexible: bool) -> None:
    """length -1 stands for null."""
    out += varint(length + 1) if flexible else struct.pack(narrow, length)


def _write_value(out: bytearray, message: Message, field: Field, kind: str, version: int, value: Any) -> None:
    flexible = message.is_flexible(version)
    if field.flexible is not None:
        flexible = flexible and field.flexible[0] <= version <= field.flexible[1]
    if kind in _NUMBERS:
        out += struct.pack(_NUMBERS[kind], value)
    elif kind == "uuid":
        out += value
    elif kind in ("string", "bytes", "records"):
        data = value.encode() if isinstance(value, str) else value
        _write_length(out, -1 if data is None else len(data), ">h" if kind == "string" else ">i", flexible=flexible)
        out += data or b""
    elif kind.startswith("[]"):
        _write_length(out, -1 if value is None else len(value), ">i", flexible=flexible)
        for item in value or []:
            _write_value(out, message, field.item(), kind[2:], version, item)
    else:
        if field.is_nullable(version):
            out += struct.pack(">b", -1 if value is None else 1)
        if value is not None:
            _write_struct(out, message, message.structs[kind], version, value)


# --- reading ---------------------------------------------------------------------------------------


class Reader:
    """Takes values off the front of bytes; raises ValueError at the end of them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self.data):
            raise ValueError(f"{size} bytes wanted at {self.position} of {len(self.data)}")
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def length(self, narrow: str, *, flexible: bool) -> int:
        return self.varint() - 1 if flexible else int(self.number(narrow))


def _read_struct(reader: Reader, message: Message, fields: list[Field], version: int) -> Values:
    values: Values = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        if field.tagged[0] <= version <= field.tagged[1]:
            tagged[field.tag or 0] = field
            values[field.name] = field.default
        else:
            values[field.name] = _read_value(reader, message, field, field.kind, version)
    if message.is_flexible(version):
        for _ in range(reader.varint()):
            tag, size = reader.varint(), reader.varint()
            inner = Reader(reader.take(size))
            if tag in tagged:
                values[tagged[tag].name] = _read_value(inner, message, tagged[tag], tagged[tag].kind, version)
            else:
                values[f"unknown_tag_{tag}"] = inner.data
    return values


def _read_value(reader: Reader, message: Message, field: Field, kind: str, version: int) -> Any:
    flexible = message.is_flexible(version)
    if kind in _NUMBERS:
        return reader.number(_NUMBERS[kind])
    if kind == "uuid":
        return reader.take(16)
    if kind in ("string", "bytes", "records"):
        size = reader.length(">h" if kind == "string" else ">i", flexible=flexible)
        if size < 0:
            return None
        data = reader.take(size)
        return data.decode() if kind == "string" else data
    if kind.startswith("[]"):
        count = reader.length(">i", flexible=flexible)
        if count < 0:
            return None
        return [_read_value(reader, message, field.item(), kind[2:], version) for _ in range(count)]
    if field.is_nullable(version) and (reader.data == _NO_TAGGED_STRUCT or reader.number(">b") < 0):
        return None
    return _read_struct(reader, message, message.structs[kind], version)
