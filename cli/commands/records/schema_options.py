"""Options that say of which schema keys and values are: --avro and the like, the same for keys, and --registry.

With a registry, a schema in a file is what is registered (`produce`); where no file is given, bytes are read by the id
in front of them (`consume`, `tail`), and values are written by the latest schema of their subject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from sordini.admin.failure import Failure
from sordini.cli.common.registry_options import RegistryOptions, registry_options
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.schemas.codecs import Codec
    from sordini.schemas.schema_files import Kind

_KINDS: Final = (
    ("avro", "FILE", "Avro by the schema in this .avsc file, in Avro's JSON encoding"),
    ("protobuf", "FILE[:MESSAGE]", "Protobuf by this .proto file, or by descriptors that protoc has written"),
    ("json-schema", "FILE", "JSON that the JSON schema in this file allows"),
)
_READ_BY_ID: Final = (
    "Read keys and values by the schemas of this registry, whose ids are in front of them; what has no known id is "
    "printed as it is."
)
_WRITTEN: Final = (
    "Write values with the id of a schema in this registry: of the file of --avro and the like, which is registered as "
    "TOPIC-value, or of the latest one there."
)


class RecordCodecs(NamedTuple):
    """The schemas of keys and values; None where bytes are shown and sent as they are."""

    key: Codec | None = None
    value: Codec | None = None
    waits: bool = False
    """Whether they send requests to a registry."""


class SchemaOptions(NamedTuple):
    """What the options gave; neither files are read nor requests sent yet."""

    files: Mapping[tuple[str, str], str | None]
    """By `key` or `value`, and kind."""
    registry: RegistryOptions

    def readers(self) -> RecordCodecs:
        """How keys and values are printed. Raises UsageError and Failure."""
        files, access = RecordCodecs(_read("key", self.files), _read("value", self.files)), self.registry.access()
        if access is None:
            return files
        from sordini.cli.commands.records.registered_values import RegisteredReader

        reader = RegisteredReader(access)
        return RecordCodecs(files.key or reader, files.value or reader, waits=True)

    def writers(self, topic: str, *, registers: bool) -> RecordCodecs:
        """How the keys and values of a topic are sent. Raises UsageError and Failure."""
        access = self.registry.access()
        if access is None:
            if not registers:
                raise click.UsageError("--no-register needs --registry URL")
            return RecordCodecs(_read("key", self.files), _read("value", self.files))
        from sordini.cli.commands.records.registered_values import writer_of_file, writer_of_latest

        found: dict[str, Codec | None] = {}
        for what in ("key", "value"):
            chosen, subject = _chosen(what, self.files), f"{topic}-{what}"
            if chosen is not None:
                found[what] = writer_of_file(access, subject, *chosen, registers=registers)
            else:  # Most keys are plain text.
                found[what] = writer_of_latest(access, subject) if what == "value" else None
        return RecordCodecs(found["key"], found["value"])


def schema_options(*, writes: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of schemas, which it gets as one `schemas`."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_schemas(*args: Any, registry: RegistryOptions, **options: Any) -> None:
            given = {(what, kind): options.pop(_name(what, kind)) for what in ("key", "value") for kind, _, _ in _KINDS}
            command(*args, schemas=SchemaOptions(given, registry), **options)

        wrapped = registry_options(_WRITTEN if writes else _READ_BY_ID)(with_schemas)
        for what in ("key", "value"):
            for kind, metavar, meaning in reversed(_KINDS):
                flag = f"--{'key-' if what == 'key' else ''}{kind}"
                text = f"{what.capitalize()}s are {meaning}." if what == "value" else f"As --{kind}, of keys."
                wrapped = click.option(flag, _name(what, kind), metavar=metavar, help=text)(wrapped)
        return wrapped

    return decorated


def _name(what: str, kind: str) -> str:
    return f"{what}_{kind.replace('-', '_')}"


def _chosen(what: str, given: Mapping[tuple[str, str], str | None]) -> tuple[Kind, str] | None:
    """The kind and the file of keys or values. Raises UsageError for several."""
    chosen = [(kind, written) for (whose, kind), written in given.items() if whose == what and written is not None]
    if not chosen:
        return None
    if len(chosen) > 1:
        flags = " and ".join(f"--{'key-' if what == 'key' else ''}{kind}" for kind, _ in chosen)
        raise click.UsageError(f"{flags}: a {what} is of one schema")
    from sordini.schemas.schema_files import KINDS

    return next(known for known in KINDS if known == chosen[0][0]), chosen[0][1]


def _read(what: str, given: Mapping[tuple[str, str], str | None]) -> Codec | None:
    chosen = _chosen(what, given)
    if chosen is None:
        return None
    from sordini.schemas.codecs import SchemaError
    from sordini.schemas.schema_files import read_schema

    try:
        return read_schema(*chosen)
    except SchemaError as error:
        raise Failure(str(error)) from None
