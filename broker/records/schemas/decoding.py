"""What a DecodeJob does: each value is decoded by the schema that it names. In a child process, for the libraries.

Schemas that were parsed are kept by what they are made of. A value that takes too long ends the job: those behind it
may be alike. A schema that cannot be parsed refuses its values, since nothing is known to fit it.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.jobs import Decoded, DecodeJob
from sordini.protocol.records.schema_frames import FRAME_BYTES, LISTED_MAX, schema_id_of, values_in
from sordini.schemas.codecs import CheckingCodec, MissingLibrary, SchemaError, ValueRefused
from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.registered_codecs import codec_of_parsed
from sordini.schemas.registered.types import ParsedSchema, Reference, SchemaSource, SchemaType
from sordini.schemas.registered.wire import read_indexes

KEPT_MAX: Final = 200
"""Schemas that stay parsed in one child."""
CODECS_MAX: Final = 100
"""Messages of one schema of Protobuf whose classes are kept."""
REASON_CHARACTERS_MAX: Final = 300
VALUE_MS_MAX: Final = 1_000
"""CPU time for one value."""
Check = Callable[[bytes], None]


class ValueTimeExceeded(BaseException):
    """A value takes too long; raised anywhere, by a signal. Not an Exception, as `CpuTimeExceeded`."""


class Decoder:
    """The parsed schemas of one process."""

    def __init__(self, limited: Callable[[Check, bytes], None]) -> None:
        """`limited` calls its first argument with the second, and raises ValueTimeExceeded after VALUE_MS_MAX."""
        self._limited = limited
        self._kept: OrderedDict[bytes, _Schema] = OrderedDict()

    def run(self, job: DecodeJob) -> Decoded:
        """Raises BrokerError for records that cannot be read, and NOT_ENOUGH_REPLICAS without a schema's library."""
        schemas = self._schemas(job)
        misfits: list[tuple[int, str]] = []
        total = 0
        for index, value in values_in(job.records, job.expanded_bytes_max):
            schema_id = schema_id_of(value)
            try:
                if schema_id is None or schema_id not in schemas:
                    raise ValueRefused("the value does not begin with the id of a schema")
                self._limited(schemas[schema_id].check, value)
            except MissingLibrary as error:
                raise _not_here(error) from None
            except ValueTimeExceeded:
                why = f"takes more than {VALUE_MS_MAX} ms of processor time; the records behind it are not decoded"
                return Decoded([*misfits, (index, _reason(schema_id, why))][-LISTED_MAX:], total + 1)
            except Exception as error:  # noqa: BLE001 - foreign code on hostile bytes: whatever it raises, it is no value.
                total += 1
                if total <= LISTED_MAX:
                    misfits.append((index, _reason(schema_id, str(error) or type(error).__name__)))
        return Decoded(misfits, total)

    def _schemas(self, job: DecodeJob) -> dict[int, _Schema]:
        sources: list[SchemaSource] = []
        digests: list[bytes] = []
        for one in job.schemas:
            references = tuple(Reference(name, subject, version) for name, subject, version, _ in one["references"])
            resolved = {name: sources[place] for name, _, _, place in one["references"]}
            sources.append(SchemaSource(SchemaType(one["type"]), one["text"], references, resolved))
            inner = [[name, digests[place].hex()] for name, _, _, place in one["references"]]
            digests.append(hashlib.sha256(json.dumps([one["type"], one["text"], inner]).encode()).digest())
        try:
            return {schema_id: self._schema(digests[place], sources[place]) for schema_id, place in job.places.items()}
        except MissingLibrary as error:
            raise _not_here(error) from None

    def _schema(self, digest: bytes, source: SchemaSource) -> _Schema:
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return self._kept[digest]
        made = _Schema(source)
        self._kept[digest] = made
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return made


class _Schema:
    """One schema, with its codecs."""

    def __init__(self, source: SchemaSource) -> None:
        self._parsed: ParsedSchema | SchemaError
        self._codecs: dict[tuple[int, ...], CheckingCodec] = {}
        try:
            self._parsed = parse(source)
        except MissingLibrary:
            raise
        except Exception as error:  # noqa: BLE001 - as for values.
            self._parsed = SchemaError(f"its schema cannot be used: {str(error) or type(error).__name__}")

    def check(self, value: bytes) -> None:
        """Raises ValueRefused, SchemaError, MissingLibrary, and whatever a library does not catch."""
        if isinstance(self._parsed, SchemaError):
            raise self._parsed
        indexes: tuple[int, ...] = (0,)
        start = FRAME_BYTES
        if self._parsed.type is SchemaType.PROTOBUF:
            indexes, start = read_indexes(value)
        codec = self._codecs.get(indexes)
        if codec is None:
            codec = codec_of_parsed(self._parsed, indexes)
            if len(self._codecs) >= CODECS_MAX:
                self._codecs.clear()
            self._codecs[indexes] = codec
        codec.check(value[start:])


def _not_here(error: MissingLibrary) -> BrokerError:
    return BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, f"values cannot be decoded by this broker: {error}")


def _reason(schema_id: int | None, why: str) -> str:
    text = why if schema_id is None else f"schema id {schema_id}: {why}"
    return text if len(text) <= REASON_CHARACTERS_MAX else f"{text[:REASON_CHARACTERS_MAX]}..."
