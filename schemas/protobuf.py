"""Protobuf by Google's library and compiler, with values in its own JSON mapping (proto3, "ProtoJSON Format").

A schema is a .proto file, or a set of descriptors that `protoc --include_imports --descriptor_set_out` has written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sordini.schemas.codecs import Json, MissingLibrary, SchemaError, ValueRefused
from sordini.schemas.protoc import compiled

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message, message_factory
except ImportError:
    raise MissingLibrary("Protobuf", "protobuf") from None

COMPILE_SECONDS_MAX = 60.0
NAMES_MAX = 10


class ProtobufCodec:
    """One kind of message; `kind` is its class."""

    def __init__(self, kind: Any, pool: Any) -> None:
        self._kind = kind
        self._pool = pool

    def decode(self, data: bytes) -> Json:
        try:
            return json_format.MessageToDict(self._read(data), descriptor_pool=self._pool)
        except (json_format.Error, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, ValueRefused):
                raise
            raise self._refused(error) from None

    def decode_with_defaults(self, data: bytes) -> Json:
        """As `decode`, with the fields of proto3 that have their defaults, under the names of the .proto file."""
        try:
            return json_format.MessageToDict(
                self._read(data),
                descriptor_pool=self._pool,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
        except (json_format.Error, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, ValueRefused):
                raise
            raise self._refused(error) from None

    @property
    def descriptor(self) -> Any:
        """Of the message, as Google's library has it."""
        return self._kind.DESCRIPTOR

    def check(self, data: bytes) -> None:
        self._read(data)

    def _read(self, data: bytes) -> Any:
        read = self._kind()
        try:
            read.ParseFromString(data)
        except (message.DecodeError, ValueError, RecursionError) as error:
            raise self._refused(error) from None
        return read

    def _refused(self, error: Exception) -> ValueRefused:
        return ValueRefused(f"not a Protobuf message {self._kind.DESCRIPTOR.full_name}: {error}")

    def encode(self, value: Json) -> bytes:
        name = self._kind.DESCRIPTOR.full_name
        if not isinstance(value, dict) and self._kind.DESCRIPTOR.file.package != "google.protobuf":
            raise ValueRefused(f"does not fit the Protobuf message {name}: not a JSON object")
        made = self._kind()
        try:
            json_format.ParseDict(value, made, descriptor_pool=self._pool)
        except (json_format.Error, TypeError, ValueError, RecursionError) as error:
            raise ValueRefused(f"does not fit the Protobuf message {name}: {error}") from None
        written: bytes = made.SerializeToString(deterministic=True)
        return written


def read_protobuf(path: Path, wanted: str | None) -> ProtobufCodec:
    """A message of a .proto file or a descriptor set, by its full or last name; None is the only one in the file.

    Raises SchemaError and OSError.
    """
    if path.suffix == ".proto":
        path.read_bytes()  # The system's error where it cannot be read; the compiler has one of its own.
        descriptors = _compiled(path)
        files = [file for file in descriptors.file if file.name == path.name]
    else:
        descriptors = descriptor_pb2.FileDescriptorSet()
        try:
            descriptors.ParseFromString(path.read_bytes())
        except message.DecodeError:
            raise SchemaError(f"{path}: neither a .proto file nor a set of descriptors") from None
        files = list(descriptors.file)
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in descriptors.file:
            pool.Add(file)
        names = [name for file in files for name in _names(file)]
        chosen = chosen_message(str(path), names, wanted)
        return ProtobufCodec(message_factory.GetMessageClass(pool.FindMessageTypeByName(chosen)), pool)
    except (TypeError, KeyError) as error:
        raise SchemaError(f"{path}: its descriptors are not complete: {error}") from None


def _compiled(path: Path) -> Any:
    try:
        return compiled(path.parent, path.name, COMPILE_SECONDS_MAX)
    except MissingLibrary:
        raise
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def _names(file: Any) -> list[str]:
    """The messages of one file, those inside others too."""

    def below(prefix: str, messages: Any) -> list[str]:
        found = []
        for one in messages:
            if one.options.map_entry:
                continue
            name = f"{prefix}{one.name}"
            found += [name, *below(f"{name}.", one.nested_type)]
        return found

    return below(f"{file.package}." if file.package else "", file.message_type)


def chosen_message(path: str, names: list[str], wanted: str | None) -> str:
    """The full name of a message by its full or last name; None is the only one. Raises SchemaError."""
    if wanted is None:
        if len(names) == 1:
            return names[0]
        listed = ", ".join(names[:NAMES_MAX]) + (", ..." if len(names) > NAMES_MAX else "")
        raise SchemaError(
            f"{path} has {len(names)} messages: name one as {path}:MESSAGE" + (f" ({listed})" if names else "")
        )
    found = [name for name in names if name == wanted or name.endswith(f".{wanted}")]
    if wanted in found:
        return wanted
    if len(found) == 1:
        return found[0]
    listed = ", ".join(found or names[:NAMES_MAX])
    raise SchemaError(f"{path}: {'several messages are' if found else 'no message is'} called {wanted!r} ({listed})")
