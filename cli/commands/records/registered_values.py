"""Keys and values with the header of a registry: read by the id in it, and written with one.

What a registry does not answer ends the command: without its schemas, no record can be read or written. A schema that
cannot be used, and bytes that do not fit theirs, are refused record by record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.admin.failure import Failure
from sordini.admin.schema_registry.registry_requests import NOT_FOUND, RegistryClient, RegistryRefused, RegistryText
from sordini.admin.schema_registry.sources import RegistrySources, UnknownSchema
from sordini.schemas.codecs import Json, SchemaError, Unregistered, ValueRefused
from sordini.schemas.registered.registered_codecs import RegisteredCodecs, message_index
from sordini.schemas.registered.types import InvalidSchema, SchemaSource, SchemaType
from sordini.schemas.registered.wire import read_header
from sordini.schemas.schema_files import Kind, file_and_message

if TYPE_CHECKING:
    from sordini.admin.schema_registry.access import RegistryAccess
    from sordini.schemas.codecs import Codec

_TYPES: dict[Kind, SchemaType] = {
    "avro": SchemaType.AVRO,
    "json-schema": SchemaType.JSON,
    "protobuf": SchemaType.PROTOBUF,
}


class RegisteredReader:
    """Decodes by the schema of the id before a value."""

    def __init__(self, access: RegistryAccess) -> None:
        self._codecs = RegisteredCodecs(RegistrySources(RegistryClient(access)).source_of)

    def decode(self, data: bytes) -> Json:
        """Raises Unregistered for bytes without a known id, ValueRefused, and Failure."""
        try:
            schema_id = read_header(data).schema_id
        except ValueRefused as refused:
            raise Unregistered(str(refused)) from None
        try:
            return self._codecs.decode(data)[1]
        except UnknownSchema:
            raise Unregistered(f"there is no schema {schema_id}") from None
        except InvalidSchema as error:
            raise ValueRefused(f"the registered schema {schema_id} cannot be used: {error}") from None
        except ValueRefused as refused:
            raise ValueRefused(f"schema {schema_id}: {refused}") from None
        except SchemaError as error:
            raise Failure(str(error)) from None

    def encode(self, value: Json) -> bytes:
        """Nothing is written without an id that was chosen."""
        raise AssertionError(value)


class RegisteredWriter:
    """Encodes by one registered schema, whose id is written before each value."""

    def __init__(self, codecs: RegisteredCodecs, schema_id: int, indexes: tuple[int, ...]) -> None:
        self._codecs = codecs
        self._schema_id = schema_id
        self._indexes = indexes

    def decode(self, data: bytes) -> Json:
        """Raises ValueRefused."""
        return self._codecs.decode(data)[1]

    def encode(self, value: Json) -> bytes:
        """Raises ValueRefused."""
        return self._codecs.encode(self._schema_id, value, self._indexes)


def writer_of_file(access: RegistryAccess, subject: str, kind: Kind, written: str, *, registers: bool) -> Codec:
    """By the schema in a file, which is registered in a subject, or has to be there. Raises Failure."""
    from sordini.cli.common.input_files import read_text

    path, message = file_and_message(written) if kind == "protobuf" else (written, None)
    text = RegistryText(_TYPES[kind], read_text(path))
    client = RegistryClient(access)
    try:
        # Before anything is registered: a message that is not there would leave a schema that no value is written by.
        indexes = message_index(SchemaSource(text.type, text.text, (), {}), message, path)
        schema_id = client.register(subject, text) if registers else client.find(subject, text)
        return _writer(client, schema_id, indexes)
    except RegistryRefused as refused:
        if registers or refused.status != NOT_FOUND:
            raise
        raise Failure(f"{path} is not registered in {subject}, and --no-register is given") from None
    except SchemaError as error:
        text_of = str(error)
        raise Failure(text_of if text_of.startswith(path) else f"{path}: {text_of}") from None


def writer_of_latest(access: RegistryAccess, subject: str) -> Codec:
    """By the latest version of a subject; of Protobuf by the first message. Raises Failure."""
    client = RegistryClient(access)
    try:
        latest = client.version(subject)
        return _writer(client, latest.schema_id, (0,))
    except RegistryRefused as refused:
        if refused.status != NOT_FOUND:
            raise
        reason = f"the registry {client.name} has no schema of {subject}"
        raise Failure(f"{reason}: --avro, --json-schema or --protobuf with a FILE registers one") from None
    except SchemaError as error:
        raise Failure(f"the latest schema of {subject} cannot be used: {error}") from None


def _writer(client: RegistryClient, schema_id: int, indexes: tuple[int, ...]) -> Codec:
    """Finds the schema now, so that nothing is sent without it. Raises Failure and SchemaError."""
    codecs = RegisteredCodecs(RegistrySources(client).source_of)
    try:
        codecs.prepare(schema_id, indexes)
    except UnknownSchema:
        raise Failure(f"the registry {client.name} does not find the schema {schema_id} that it named") from None
    return RegisteredWriter(codecs, schema_id, indexes)
