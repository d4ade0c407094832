"""Whether a schema of Protobuf reads what an earlier one has written, by the descriptors of both. Pure.

Source: Protocol Buffers, "Updating A Message Type" (proto2 and proto3), and Confluent Platform, "Protobuf compatibility
rules": messages are compared by name, fields by number; names of fields and enums mean nothing on the wire.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2

from sordini.schemas.registered.protobuf.faults import Fault
from sordini.system.named_tuple import NamedTuple

_Field = descriptor_pb2.FieldDescriptorProto
FAULTS_MAX: Final = 1_000
COMPARISONS_MAX: Final = 50_000
"""Pairs of messages that one comparison visits."""
_MESSAGES: Final = {_Field.TYPE_MESSAGE, _Field.TYPE_GROUP}
_SCALAR_KINDS: Final = {
    **dict.fromkeys(
        (_Field.TYPE_INT32, _Field.TYPE_INT64, _Field.TYPE_UINT32, _Field.TYPE_UINT64, _Field.TYPE_BOOL),
        "varint",
    ),
    _Field.TYPE_ENUM: "varint",
    **dict.fromkeys((_Field.TYPE_SINT32, _Field.TYPE_SINT64), "zigzag"),
    **dict.fromkeys((_Field.TYPE_STRING, _Field.TYPE_BYTES), "bytes"),
    **dict.fromkeys((_Field.TYPE_FIXED32, _Field.TYPE_SFIXED32), "fixed32"),
    **dict.fromkeys((_Field.TYPE_FIXED64, _Field.TYPE_SFIXED64), "fixed64"),
    _Field.TYPE_FLOAT: "float",
    _Field.TYPE_DOUBLE: "double",
}
"""Types of one kind read each other's bytes."""
_Path = tuple[str, ...]


class Types(NamedTuple):
    """A compiled schema: its own file, and all messages by full name with the package of their file."""

    file: Any
    messages: dict[str, tuple[Any, str]]


class TooManyComparisons(Exception):
    """The schemas are too large to be compared."""


def types_of(descriptors: Any, name: str) -> Types:
    """Of a set of descriptors, one file of which is the schema's own."""
    messages: dict[str, tuple[Any, str]] = {}
    for file in descriptors.file:
        prefix = f".{file.package}" if file.package else ""
        for message in file.message_type:
            _collect(message, prefix, file.package, messages)
    return Types(next(file for file in descriptors.file if file.name == name), messages)


def protobuf_faults(old: Types, new: Types) -> list[Fault]:
    """Empty: what was written with `old` can be read with `new`."""
    found = [] if old.file.package == new.file.package else [Fault("PACKAGE_CHANGED", ())]
    try:
        found += _Comparison(old, new).of_types(old.file.message_type, new.file.message_type, ())
    except (TooManyComparisons, RecursionError):
        return [Fault("TOO_LARGE", ())]
    return found[:FAULTS_MAX]


def _collect(message: Any, prefix: str, package: str, messages: dict[str, tuple[Any, str]]) -> None:
    name = f"{prefix}.{message.name}"
    messages[name] = message, package
    for nested in message.nested_type:
        _collect(nested, name, package, messages)


class _Members(NamedTuple):
    """The fields of a message by number, and the oneof of each that has one; `optional` of proto3 is none."""

    fields: dict[int, Any]
    oneofs: dict[int, str]


class _Comparison:
    def __init__(self, old: Types, new: Types) -> None:
        self._old, self._new = old, new
        self._comparisons = 0
        self._found: dict[tuple[str, str], list[Fault]] = {}

    def of_types(self, old: Any, new: Any, path: _Path) -> list[Fault]:
        """Messages of a file, or inside another."""
        after = {message.name: message for message in new}
        found: list[Fault] = []
        for message in old:
            if message.options.map_entry:
                continue
            inner = (*path, message.name)
            if message.name in after:
                found += self._of_messages(message, after[message.name], inner)
            else:
                found.append(Fault("MESSAGE_REMOVED", inner))
        return found

    def _of_messages(self, old: Any, new: Any, path: _Path) -> list[Fault]:
        self._comparisons += 1
        if self._comparisons > COMPARISONS_MAX:
            raise TooManyComparisons
        before, after = _members(old), _members(new)
        return [
            *_moved_faults(before, after, path),
            *_removed_faults(before, after, path),
            *_added_faults(before, after, path),
            *self._of_fields(before, after, path),
            *self.of_types(old.nested_type, new.nested_type, path),
        ]

    def _of_fields(self, before: _Members, after: _Members, path: _Path) -> list[Fault]:
        found: list[Fault] = []
        for number in sorted(before.fields.keys() & after.fields.keys()):
            found += self._of_field(before.fields[number], after.fields[number], _place(number, after, path))
        return found

    def _of_field(self, old: Any, new: Any, path: _Path) -> list[Fault]:
        entries = self._entry(self._old, old), self._entry(self._new, new)
        if _kind(old, entries[0]) != _kind(new, entries[1]):
            return [Fault("FIELD_KIND_CHANGED", path)]
        if entries[0] is not None:
            pairs = zip(_by_number(entries[0]), _by_number(entries[1]), strict=True)
            return [fault for pair in pairs for fault in self._of_field(*pair, path)]
        if old.type in _MESSAGES:
            return [*_required_faults(old, new, path), *self._of_message_field(old, new, path)]
        if _SCALAR_KINDS[old.type] != _SCALAR_KINDS[new.type]:
            return [Fault("FIELD_SCALAR_KIND_CHANGED", path)]
        if _is_packable(old) and (old.label == _Field.LABEL_REPEATED) != (new.label == _Field.LABEL_REPEATED):
            return [Fault("FIELD_NUMERIC_LABEL_CHANGED", path)]
        return _required_faults(old, new, path)

    def _of_message_field(self, old: Any, new: Any, path: _Path) -> list[Fault]:
        """By the name within the package; what other files define is compared here, for no other place does."""
        (before, old_package), (after, new_package) = (
            self._old.messages[old.type_name],
            self._new.messages[new.type_name],
        )
        if _local(old.type_name, old_package) != _local(new.type_name, new_package):
            return [Fault("FIELD_NAMED_TYPE_CHANGED", path)]
        if self._is_own(self._old, old.type_name) and self._is_own(self._new, new.type_name):
            return []
        pair = old.type_name, new.type_name
        if pair not in self._found:
            self._found[pair] = []
            inner = tuple(_local(old.type_name, old_package).split("."))
            self._found[pair] = self._of_messages(before, after, inner)
        found = self._found[pair]
        return [*found, Fault("FIELD_NAMED_TYPE_CHANGED", path)] if found else []

    def _entry(self, types: Types, field: Any) -> Any:
        """The entry of a map: a message that the compiler makes."""
        if field.type != _Field.TYPE_MESSAGE:
            return None
        message, _ = types.messages[field.type_name]
        return message if message.options.map_entry else None

    def _is_own(self, types: Types, name: str) -> bool:
        package = f".{types.file.package}." if types.file.package else "."
        top = name.removeprefix(package).split(".")[0]
        return name.startswith(package) and any(message.name == top for message in types.file.message_type)


def _members(message: Any) -> _Members:
    oneofs = {
        field.number: message.oneof_decl[field.oneof_index].name
        for field in message.field
        if field.HasField("oneof_index") and not field.proto3_optional
    }
    return _Members({field.number: field for field in message.field}, oneofs)


def _moved_faults(before: _Members, after: _Members, path: _Path) -> Iterator[Fault]:
    """Fields that could be set together, and now exclude each other. New fields were never set."""
    groups: dict[str, list[int]] = {}
    for number, oneof in after.oneofs.items():
        if number in before.fields:
            groups.setdefault(oneof, []).append(number)
    for oneof, numbers in groups.items():
        origins = {before.oneofs.get(number, number) for number in numbers}
        alone = sum(number not in before.oneofs for number in numbers)
        if len(origins) > 1:
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if alone > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            yield Fault(kind, (*path, oneof))


def _removed_faults(before: _Members, after: _Members, path: _Path) -> Iterator[Fault]:
    """A field may go, but not one of a oneof of which others stay: its value would read as none of them."""
    names = set(after.oneofs.values())
    surviving = {oneof for number, oneof in before.oneofs.items() if number in after.fields}
    for number in sorted(before.fields.keys() - after.fields.keys()):
        oneof = before.oneofs.get(number)
        if oneof is not None and (oneof in names or oneof in surviving):
            yield Fault("ONEOF_FIELD_REMOVED", (*path, oneof, str(number)))
        elif before.fields[number].label == _Field.LABEL_REQUIRED:
            yield Fault("REQUIRED_FIELD_REMOVED", (*path, str(number)))


def _added_faults(before: _Members, after: _Members, path: _Path) -> Iterator[Fault]:
    for number in sorted(after.fields.keys() - before.fields.keys()):
        if after.fields[number].label == _Field.LABEL_REQUIRED:
            yield Fault("REQUIRED_FIELD_ADDED", (*path, str(number)))


def _required_faults(old: Any, new: Any, path: _Path) -> list[Fault]:
    is_added = new.label == _Field.LABEL_REQUIRED != old.label
    return [Fault("REQUIRED_FIELD_ADDED", path)] if is_added else []


def _place(number: int, members: _Members, path: _Path) -> _Path:
    oneof = members.oneofs.get(number)
    return (*path, str(number)) if oneof is None else (*path, oneof, str(number))


def _kind(field: Any, entry: Any) -> str:
    if entry is not None:
        return "map"
    if field.type in _MESSAGES:
        return "group" if field.type == _Field.TYPE_GROUP else "message"
    return "scalar"


def _by_number(entry: Any) -> list[Any]:
    return sorted(entry.field, key=lambda field: field.number)


def _is_packable(field: Any) -> bool:
    return field.type not in {_Field.TYPE_STRING, _Field.TYPE_BYTES}


def _local(name: str, package: str) -> str:
    return name.removeprefix(f".{package}.") if package else name.removeprefix(".")
