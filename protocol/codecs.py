"""Messages to bytes and back: the codecs compiled from the declarations, one per (class, version).

A codec is compiled when it is first used, in about a millisecond, and kept. Hot callers keep the function
that `decoder` or `encoder` returned; other callers use `decode` and `encode`. A traceback through a codec
shows the failing line of the compiled text.

Decoding any bytes raises WireError and nothing else. Encoding raises only for bugs of the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from sordini.protocol.declare import (
    EMPTY,
    NEVER,
    ArrayOf,
    fields_of,
    flexible_from,
    message,
    packable,
    since,
    struct,
    tagged,
    until,
    versions_of,
)
from sordini.protocol.decoding import decoder_source
from sordini.protocol.encoding import array_encoder_source, encoder_source
from sordini.protocol.primitives import Packed

__all__ = [
    "EMPTY",
    "NEVER",
    "Slices",
    "decode",
    "decoder",
    "decoder_in_steps",
    "encode",
    "encode_into",
    "encoder",
    "encoder_in_steps",
    "message",
    "pack",
    "packable",
    "since",
    "struct",
    "tagged",
    "until",
]

T = TypeVar("T")

Slices: TypeAlias = list[tuple[int, Any]]
"""Records that are not in the output: the position of each, and the slice."""

_decoders: dict[tuple[type, int], Callable[..., Any]] = {}
_encoders: dict[tuple[type, int], Callable[..., Any]] = {}
_array_encoders: dict[tuple[type, str, int], Callable[..., Any]] = {}
_decoders_in_steps: dict[tuple[type, int], Callable[..., Any]] = {}
_encoders_in_steps: dict[tuple[type, int], Callable[..., Any]] = {}


def decoder(cls: type[T], version: int) -> Callable[..., tuple[T, int]]:
    """The function that decodes one version: (buffer, position) to (message, end position).

    A third argument limits the cost of all array elements (see `ROW_COST`): beyond it MessageTooCostly is raised.
    """
    made = _decoders.get((cls, version))
    if made is None:
        flexible = _is_flexible(cls, version)
        source = decoder_source(cls, version, flexible=flexible)
        made = _decoders[cls, version] = source.compiled(f"{cls.__name__} v{version} decoder")
    return made


def encoder(cls: type[T], version: int) -> Callable[[T, bytearray, Slices], None]:
    """The function that encodes one version: (message, out, slices), as for `encode_into`."""
    made = _encoders.get((cls, version))
    if made is None:
        flexible = _is_flexible(cls, version)
        source = encoder_source(cls, version, flexible=flexible)
        made = _encoders[cls, version] = source.compiled(f"{cls.__name__} v{version} encoder")
    return made


def decoder_in_steps(
    cls: type[T], version: int
) -> Callable[[memoryview, int, int], Generator[int, None, tuple[T, int]]]:
    """As `decoder`, as a generator that yields how many rows it has decoded; its third argument limits their cost."""
    made = _decoders_in_steps.get((cls, version))
    if made is None:
        source = decoder_source(cls, version, flexible=_is_flexible(cls, version), in_steps=True)
        made = _decoders_in_steps[cls, version] = source.compiled(f"{cls.__name__} v{version} decoder in steps")
    return made


def encoder_in_steps(cls: type[T], version: int) -> Callable[[T, bytearray, Slices], Generator[int, None, None]]:
    """As `encoder`, as a generator that yields how many rows it has encoded."""
    made = _encoders_in_steps.get((cls, version))
    if made is None:
        source = encoder_source(cls, version, flexible=_is_flexible(cls, version), in_steps=True)
        made = _encoders_in_steps[cls, version] = source.compiled(f"{cls.__name__} v{version} encoder in steps")
    return made


def decode(cls: type[T], version: int, buffer: memoryview, position: int = 0) -> tuple[T, int]:
    """Decode a message; returns it and its end position, raises WireError for malformed bytes.

    Records in the message are views into `buffer`, which must not change while they are used.
    """
    return decoder(cls, version)(buffer, position)


def encode(message: object, version: int) -> bytes:
    """Encode a message whose records, if it has any, are bytes."""
    out = bytearray()
    slices: Slices = []
    encode_into(message, version, out, slices)
    assert not slices, "records in a file are sent, not copied: use encode_into"
    return bytes(out)


def encode_into(message: object, version: int, out: bytearray, slices: Slices) -> None:
    """Append an encoded message to `out`.

    Records that are a slice of a file are not copied: (position in `out`, slice) is added to `slices`, in
    order. On the wire their bytes are inserted at that position of `out`.
    """
    encoder(type(message), version)(message, out, slices)


def pack(cls: type, version: int, owner: type, name: str, rows: list[Any]) -> Packed:
    """The bytes of an array, the `packable` field `name` of the struct `owner`, in one version of the message `cls`."""
    made = _array_encoders.get((owner, name, version))
    if made is None:
        (field,) = (field for field in fields_of(owner) if field.name == name)
        assert isinstance(field.kind, ArrayOf), f"{name} is no array"
        assert field.spec.packable, f"{name} is not packable"
        source = array_encoder_source(field.kind, version, flexible=_is_flexible(cls, version))
        made = _array_encoders[owner, name, version] = source.compiled(f"{owner.__name__}.{name} v{version} encoder")
    out = bytearray()
    made(rows, out, [])
    return Packed(out)


def _is_flexible(cls: type, version: int) -> bool:
    assert version in versions_of(cls), f"{cls.__name__} has no version {version}"
    return version >= flexible_from(cls)
