"""A file descriptor as a .proto file: for schemas that are sent as descriptors, and for the normalized form.

Types have their full names, `.shop.Order`, as in the descriptor. Options of others are written if their definitions are
in the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2, text_format

from sordini.schemas.registered.types import InvalidSchema

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in _Field.Type.items()
    if name not in {"TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP"}
}
_LABELS: Final = {_Field.LABEL_REPEATED: "repeated ", _Field.LABEL_REQUIRED: "required "}
_RANGE_END: Final = 1 << 29
"""What follows the largest number of a field."""
_ENUM_MAX: Final = (1 << 31) - 1
_EDITIONS: Final = {1000: "2023", 1001: "2024"}


class DescriptorText:
    """Writes one file; `options_of` turns options into a message that knows options of others."""

    def __init__(self, file: Any, options_of: Any, *, is_normalized: bool = False) -> None:
        self._file = file
        self._options_of = options_of
        self._is_normalized = is_normalized
        self._is_proto2 = file.syntax in {"", "proto2"}

    def written(self) -> str:
        """Raises InvalidSchema for what no .proto file can say."""
        try:
            return "".join(self._lines(self._file))
        except (IndexError, ValueError) as error:
            if isinstance(error, InvalidSchema):
                raise
            raise InvalidSchema(f"a descriptor that is not whole: {error}") from None

    def _lines(self, file: Any) -> Iterator[str]:
        if file.syntax == "editions":
            yield f'edition = "{_EDITIONS[file.edition]}";\n' if file.edition in _EDITIONS else _no_edition()
        elif file.syntax == "proto3" or not self._is_normalized:
            yield f'syntax = "{file.syntax or "proto2"}";\n'
        if file.package:
            yield f"package {file.package};\n"
        public = {file.dependency[at] for at in file.public_dependency}
        for path in self._ordered(file.dependency, lambda one: one):
            yield f'import {"public " if path in public else ""}"{path}";\n'
        yield from self._option_lines(file.options)
        for message in file.message_type:
            yield from self._message(message)
        for enum in file.enum_type:
            yield from self._enum(enum)
        yield from self._extensions(file.extension)
        for service in file.service:
            yield from self._service(service)

    def _ordered(self, elements: Iterable[Any], key: Any) -> list[Any]:
        return sorted(elements, key=key) if self._is_normalized else list(elements)

    def _message(self, message: Any) -> Iterator[str]:
        yield f"message {message.name} {{\n"
        yield from self._members(message)
        yield "}\n"

    def _members(self, message: Any) -> Iterator[str]:
        ranges = [_range(one.start, one.end - 1, _RANGE_END - 1) for one in message.reserved_range]
        yield from _reserved(ranges, message.reserved_name)
        yield from self._option_lines(message.options)
        maps = {entry.name: entry for entry in message.nested_type if entry.options.map_entry}
        groups = {_last_name(field) for field in _all_fields(message) if field.type == _Field.TYPE_GROUP}
        fields = self._ordered(message.field, lambda field: field.number)
        if any(one.HasField("oneof_index") and one.oneof_index >= len(message.oneof_decl) for one in fields):
            raise InvalidSchema(f"the message {message.name!r} has a field of a oneof that it has not")
        for field in fields:
            if field.proto3_optional or not field.HasField("oneof_index"):
                yield from self._field(field, message, maps)
        for at, oneof in enumerate(message.oneof_decl):
            inner = [one for one in fields if one.HasField("oneof_index") and one.oneof_index == at]
            if not all(one.proto3_optional for one in inner):
                yield f"oneof {oneof.name} {{\n"
                yield from self._option_lines(oneof.options)
                for field in inner:
                    yield from self._field(field, message, maps)
                yield "}\n"
        for one in self._ordered(message.extension_range, lambda one: one.start):
            yield f"extensions {_range(one.start, one.end - 1, _RANGE_END - 1)}{self._brackets(one.options)};\n"
        yield from self._extensions(message.extension)
        for nested in message.nested_type:
            if nested.name not in maps and nested.name not in groups:
                yield from self._message(nested)
        for enum in message.enum_type:
            yield from self._enum(enum)

    def _field(self, field: Any, message: Any, maps: Any) -> Iterator[str]:
        entry = maps.get(_last_name(field)) if field.type == _Field.TYPE_MESSAGE else None
        options = self._brackets(field.options, [*_default(field), *_json_name(field)])
        if entry is not None:
            key, value = (_kind(one) for one in sorted(entry.field, key=lambda one: one.number))
            yield f"map<{key}, {value}> {field.name} = {field.number}{options};\n"
            return
        label = self._label(field)
        if field.type != _Field.TYPE_GROUP:
            yield f"{label}{_kind(field)} {field.name} = {field.number}{options};\n"
            return
        group = next((one for one in message.nested_type if one.name == _last_name(field)), None)
        if group is None:
            raise InvalidSchema(f"the group {field.name!r} has no message")
        yield f"{label}group {group.name} = {field.number}{options} {{\n"
        yield from self._members(group)
        yield "}\n"

    def _label(self, field: Any) -> str:
        if field.HasField("oneof_index") and not field.proto3_optional:
            return ""
        is_optional = field.proto3_optional or self._is_proto2
        return _LABELS.get(field.label, "optional " if is_optional else "")

    def _enum(self, enum: Any) -> Iterator[str]:
        yield f"enum {enum.name} {{\n"
        ranges = [_range(one.start, one.end, _ENUM_MAX) for one in enum.reserved_range]
        yield from _reserved(ranges, enum.reserved_name)
        yield from self._option_lines(enum.options)
        for one in self._ordered(enum.value, lambda value: (value.number, value.name)):
            yield f"{one.name} = {one.number}{self._brackets(one.options)};\n"
        yield "}\n"

    def _extensions(self, fields: Iterable[Any]) -> Iterator[str]:
        for field in fields:
            yield f"extend {field.extendee} {{\n"
            yield from self._field(field, descriptor_pb2.DescriptorProto(), {})
            yield "}\n"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{\n"
        yield from self._option_lines(service.options)
        for method in service.method:
            requests = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            responses = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = "".join(self._option_lines(method.options))
            yield f"rpc {method.name} ({requests}) returns ({responses}){f' {{ {options} }}' if options else ';'}\n"
        yield "}\n"

    def _option_lines(self, options: Any) -> Iterator[str]:
        return (f"option {one};\n" for one in self._option_texts(options))

    def _brackets(self, options: Any, others: Iterable[str] = ()) -> str:
        texts = [*self._option_texts(options), *others]
        return f" [{', '.join(texts)}]" if texts else ""

    def _option_texts(self, options: Any) -> list[str]:
        found = []
        for field, value in self._options_of(options).ListFields():
            name = f"({field.full_name})" if field.is_extension else field.name
            values = value if field.is_repeated else [value]
            found += [f"{name} = {_option_value(field, one)}" for one in values]
        return sorted(found) if self._is_normalized else found


def _no_edition() -> str:
    raise InvalidSchema(f"an edition of Protobuf that is not known: {', '.join(_EDITIONS.values())} are")


def _option_value(field: Any, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return str(value if found is None else found.name)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, bytes)):
        return _quoted(value)
    return str(value)


def _quoted(value: str | bytes) -> str:
    data = value.encode() if isinstance(value, str) else value
    return '"' + "".join(chr(one) if 32 <= one < 127 and one not in b"\"\\'" else f"\\{one:03o}" for one in data) + '"'


def _kind(field: Any) -> str:
    return str(_SCALARS.get(field.type, field.type_name))


def _last_name(field: Any) -> str:
    return str(field.type_name).rpartition(".")[2]


def _all_fields(message: Any) -> Iterable[Any]:
    return (*message.field, *message.extension)


def _default(field: Any) -> list[str]:
    if not field.HasField("default_value"):
        return []
    if field.type == _Field.TYPE_STRING:
        return [f"default = {_quoted(field.default_value)}"]
    if field.type == _Field.TYPE_BYTES:  # Escaped in the descriptor.
        return [f'default = "{field.default_value}"']
    return [f"default = {field.default_value}"]


def _json_name(field: Any) -> list[str]:
    if not field.json_name or field.json_name == _implied_json_name(field.name):
        return []
    return [f"json_name = {_quoted(field.json_name)}"]


def _implied_json_name(name: str) -> str:
    """What the compiler makes of a field's name: a letter after an underscore is large."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _reserved(ranges: list[str], names: Iterable[str]) -> Iterator[str]:
    if ranges:
        yield f"reserved {', '.join(ranges)};\n"
    quoted = [f'"{name}"' for name in names]
    if quoted:
        yield f"reserved {', '.join(quoted)};\n"


def _range(first: int, last: int, last_possible: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= last_possible else last}"
