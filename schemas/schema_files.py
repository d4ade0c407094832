"""A schema as a person names it: a kind, and FILE or FILE:MESSAGE."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from sordini.schemas.codecs import Codec, SchemaError

Kind = Literal["avro", "protobuf", "json-schema"]
KINDS: Final[tuple[Kind, ...]] = ("avro", "protobuf", "json-schema")


def read_schema(kind: Kind, written: str) -> Codec:
    """The codec of a schema. Raises SchemaError, also for files that cannot be read. Libraries are imported here."""
    try:
        if kind == "json-schema":
            from sordini.schemas.json_schema import read_json_schema

            return read_json_schema(Path(written))
        if kind == "avro":
            from sordini.schemas.avro import read_avro

            return read_avro(Path(written))
        from sordini.schemas.protobuf import read_protobuf

        path, message = file_and_message(written)
        return read_protobuf(Path(path), message)
    except OSError as error:
        raise SchemaError(f"{error.filename or written}: {(error.strerror or str(error)).lower()}") from None


def file_and_message(written: str) -> tuple[str, str | None]:
    """FILE:MESSAGE in its parts; None without a message."""
    if not Path(written).exists() and ":" in written:  # A file may have a colon in its name.
        path, _, message = written.rpartition(":")
        return path, message or None
    return written, None
