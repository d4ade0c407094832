"""The port of all kinds of schemas, and their errors. Pure."""

from __future__ import annotations

from typing import Any, Final, Protocol

INSTALL: Final = "pip install '../sordini[schemas]' (docs/installation.md)"
Json = Any
"""What the `json` module reads and writes: None, bool, int, float, str, list, dict."""


class SchemaError(ValueError):
    """A schema that cannot be used; the text says which, where and why."""


class ValueRefused(ValueError):
    """A key or value that does not fit its schema; the text says where and why."""


class Unregistered(ValueRefused):
    """Bytes that are not of a registered schema, which are shown as they are."""


class Codec(Protocol):
    """One schema, as a way from bytes to JSON and back."""

    def decode(self, data: bytes) -> Json:
        """The value of a record's bytes. Raises ValueRefused."""
        ...

    def encode(self, value: Json) -> bytes:
        """The reverse of `decode`. Raises ValueRefused."""
        ...


class CheckingCodec(Codec, Protocol):
    """One that can also say whether bytes are of its schema."""

    def check(self, data: bytes) -> None:
        """Decode without making JSON of the value, which some values are not. Raises ValueRefused."""
        ...


class MissingLibrary(SchemaError):
    """The library for a kind of schema is not installed."""

    def __init__(self, kind: str, library: str) -> None:
        super().__init__(f"{kind} needs {library}, which is not installed: {INSTALL}")
