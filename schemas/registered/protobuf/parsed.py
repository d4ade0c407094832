"""A registered schema of Protobuf."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from sordini.schemas.codecs import MissingLibrary
from sordini.schemas.registered.protobuf.canonical import canonical_proto
from sordini.schemas.registered.protobuf.compiling import compile_schema
from sordini.schemas.registered.protobuf.faults import message
from sordini.schemas.registered.references import referenced
from sordini.schemas.registered.types import InvalidSchema, ParsedSchema, Roles, SchemaSource, SchemaType

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    from sordini.schemas.registered.protobuf.comparison import protobuf_faults, types_of
    from sordini.schemas.registered.protobuf.descriptor_text import DescriptorText
except ImportError:
    raise MissingLibrary("Protobuf", "protobuf") from None

_OPTIONS_FILE: Final = "google/protobuf/descriptor.proto"


class ParsedProtobuf:
    """One schema; see `ParsedSchema`."""

    type = SchemaType.PROTOBUF

    def __init__(self, source: SchemaSource, canonical: str, descriptors: Any, file_name: str) -> None:
        self.source = source
        self.canonical = canonical
        self.types = types_of(descriptors, file_name)
        self._descriptors = descriptors

    @cached_property
    def normalized(self) -> str:
        options_of = _options_reader(self._descriptors)
        return canonical_proto(DescriptorText(self.types.file, options_of, is_normalized=True).written())

    @cached_property
    def serialized(self) -> str:
        """The file descriptor in Base64, as `format=serialized` returns it."""
        data: bytes = self.types.file.SerializeToString(deterministic=True)
        return base64.b64encode(data).decode()

    @property
    def names(self) -> Sequence[str]:
        """Messages of the file, not those inside others; the first is what `[0]` leads to."""
        package = f"{self.types.file.package}." if self.types.file.package else ""
        return [f"{package}{one.name}" for one in self.types.file.message_type]

    def message_name(self, indexes: Sequence[int]) -> str:
        """The full name of the message to which `wire.MessageIndexes` lead. Raises LookupError."""
        names, inside = [self.types.file.package] if self.types.file.package else [], self.types.file.message_type
        for index in indexes:
            if not 0 <= index < len(inside):
                raise LookupError(f"there is no message {list(indexes)} in the schema")
            names.append(inside[index].name)
            inside = inside[index].nested_type
        return ".".join(names)

    def message_indexes(self) -> dict[str, tuple[int, ...]]:
        """Of all messages by their full names, those inside others too: the reverse of `message_name`."""

        def below(prefix: str, messages: Any, within: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
            found: dict[str, tuple[int, ...]] = {}
            for place, one in enumerate(messages):
                if one.options.map_entry:
                    continue
                found[prefix + one.name] = indexes = (*within, place)
                found |= below(f"{prefix}{one.name}.", one.nested_type, indexes)
            return found

        package = f"{self.types.file.package}." if self.types.file.package else ""
        return below(package, self.types.file.message_type, ())

    def message_class(self, indexes: Sequence[int]) -> tuple[Any, Any]:
        """The class of a message, and the pool of all types. Raises LookupError and InvalidSchema."""
        pool = pool_of(self._descriptors)
        name = self.message_name(indexes)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name)), pool

    def unreadable(self, written: ParsedSchema, roles: Roles) -> list[str]:
        assert isinstance(written, ParsedProtobuf)
        return [message(fault, roles) for fault in protobuf_faults(written.types, self.types)]


def parse_protobuf(source: SchemaSource) -> ParsedProtobuf:
    """A .proto file, or a file descriptor in Base64, as some clients send it. Raises InvalidSchema."""
    others = {name: _proto_text(text) for name, text in referenced(source).items()}
    file = _read_descriptor(source.text)
    text = source.text if file is None else _plain_text(file)
    descriptors, file_name = compile_schema(text, others)
    if file is not None and _knows_options(descriptors):  # Now the options that it defines or imports have names.
        text = DescriptorText(file, _options_reader(descriptors)).written()
        descriptors, file_name = compile_schema(text, others)
    return ParsedProtobuf(source, canonical_proto(text), descriptors, file_name)


def pool_of(descriptors: Any) -> Any:
    """All types of a set of descriptors. Raises InvalidSchema."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in descriptors.file:
            pool.Add(file)
    except TypeError as error:
        raise InvalidSchema(f"its descriptors are not complete: {error}") from None
    return pool


def _proto_text(text: str) -> str:
    file = _read_descriptor(text)
    return text if file is None else _plain_text(file)


def _plain_text(file: Any) -> str:
    return DescriptorText(file, lambda options: options).written()


def _read_descriptor(text: str) -> Any:
    """None for another text: one of the alphabet of Base64 alone is no .proto file, which has semicolons."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    file = descriptor_pb2.FileDescriptorProto()
    try:
        file.ParseFromString(data)
    except DecodeError:
        return None
    return file if data else None


def _knows_options(descriptors: Any) -> bool:
    return any(file.name == _OPTIONS_FILE for file in descriptors.file)


def _options_reader(descriptors: Any) -> Callable[[Any], Any]:
    """Reads options with the extensions that the schema imports: without them their values are bytes."""
    if not _knows_options(descriptors):
        return lambda options: options
    pool = pool_of(descriptors)
    classes: dict[str, Any] = {}

    def read(options: Any) -> Any:
        name = options.DESCRIPTOR.full_name
        if name not in classes:
            classes[name] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        return classes[name].FromString(options.SerializeToString())

    return read
