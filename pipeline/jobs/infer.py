"""`infer`: proposes a job file for a topic, from a sample of its records, without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice, zip_longest
from typing import Any, Final, NamedTuple

from sordini.pipeline.changes.envelope import AFTER
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.schemas.envelope_inference import ChangesProposal, changes_proposal, key_names
from sordini.pipeline.schemas.fields import Field
from sordini.pipeline.schemas.inference import Proposal, infer, schema_ids, written_fields
from sordini.pipeline.schemas.kept_schemas import KeptSchemas, RegistryUnavailable, UnknownId
from sordini.pipeline.schemas.registered_columns import (
    is_envelope,
    names_within,
    schema_of_source,
    schema_of_versions,
)
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.pipeline.source.batch import BatchReader
from sordini.pipeline.source.options import read_options
from sordini.schemas.registered.types import SchemaSource

PREFIX: Final = "kafka_"
"""Before the record's columns where a field has the name of one."""


class _Memory(dict[str, Any]):
    """Keeps a registry's schemas for one command."""

    def read(self, name: str) -> dict[str, Any] | None:
        return self.get(name)

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        self[name] = dict(value)


class Sampled(NamedTuple):
    """A record of the sample."""

    key: bytes | None
    value: bytes | None


def sample(topic: str, bootstrap: str, count: int) -> list[Sampled]:
    """The first records of each partition, `count` together. Raises PipelineError."""
    options = read_options(
        {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "columns": "key,value",
        },
        streaming=False,
    )
    reader = BatchReader(options)
    pieces = [_records(reader, piece) for piece in reader.partitions()]
    each = (record for row in zip_longest(*pieces, fillvalue=_END) for record in row if record is not _END)
    return list(islice(each, count))


_END: Final[Any] = object()


def _records(reader: BatchReader, piece: Any) -> Iterator[Sampled]:
    return chain.from_iterable(
        map(Sampled, batch.column("key").to_pylist(), batch.column("value").to_pylist()) for batch in reader.read(piece)
    )


def proposal(topic: str, records: list[Sampled], registry: RegistrySettings | None) -> tuple[Proposal, bool]:
    """What the values are, and whether the registry's subject of the topic has the columns. Raises PipelineError."""
    values, keys = [record.value for record in records], [record.key for record in records]
    ids = schema_ids([value for value in values if value is not None])
    if registry is None or not ids:
        return infer(values, keys), False
    schemas = KeptSchemas(registry, _Memory())
    seen = [f"{len(values)} records were read, written with the schemas {', '.join(map(str, sorted(ids)))}"]
    try:
        versions = schemas.versions(f"{topic}-value")
        within = AFTER if versions and is_envelope(versions[-1]) else ""
        schema = schema_of_versions(f"{topic}-value", versions, within)
    except (RegistryUnavailable, PipelineError) as error:
        seen.append(f"the subject {topic}-value does not have the columns ({error}): they are those of the schemas")
    else:
        seen.append(f"the columns are those of the versions of {topic}-value, and follow them")
        columns = tuple(field.name for field in schema.fields)
        changes = _changes(schemas, topic, keys, versions[-1], schema.fields) if within else None
        said = changes.seen if changes else ()
        return Proposal("schema_id_prefix", (), (*seen, *said), changes, columns), True
    sources = []
    for schema_id in sorted(ids):
        try:
            sources.append(schemas.source_of(schema_id))
        except UnknownId:
            seen.append(f"the registry has no schema {schema_id}: its records will be dead letters")
    if not sources:
        return infer(values, keys), False
    within = AFTER if is_envelope(sources[-1]) else ""
    found = schema_of_versions(topic, [source for source in sources if is_envelope(source) == bool(within)], within)
    changes = _changes(schemas, topic, keys, sources[-1], found.fields) if within else None
    return Proposal("schema_id_prefix", found.fields, (*seen, *(changes.seen if changes else ())), changes), False


def _changes(
    schemas: KeptSchemas, topic: str, keys: list[bytes | None], envelope: SchemaSource, fields: tuple[Field, ...]
) -> ChangesProposal:
    """How envelopes are upserted: by the fields of the records' keys, as their own schema has them."""
    names: tuple[str, ...] = key_names(keys)
    with suppress(PipelineError):
        names = tuple(field.name for field in schema_of_source(schemas.versions(f"{topic}-key")[-1], "key").fields)
    ids = schema_ids([key for key in keys if key is not None])
    for schema_id in () if names else sorted(ids):
        with suppress(PipelineError, UnknownId):
            names = tuple(field.name for field in schema_of_source(schemas.source_of(schema_id), "key").fields)
    return changes_proposal(names, names_within(envelope, "source"), fields)


def job_file(topic: str, bootstrap: str, found: Proposal, registry: Mapping[str, str], sink: str) -> str:
    """The proposal as YAML, with what was seen as comments."""
    import yaml

    name = re.sub(r"[^A-Za-z0-9]", "_", topic)[:80].strip("_") or "job"
    decode: dict[str, Any] = {"mode": found.mode}
    if found.mode == "schema_id_prefix":
        decode["registry"] = dict(registry)
    if found.needs_prefix:
        decode["record_prefix"] = PREFIX
    if found.fields:
        decode["schema"] = {"fields": written_fields(found.fields)}
    to: dict[str, Any] = {"kind": sink, "location": f"tables/{name}"}
    if found.changes is not None:
        decode["changes"] = "debezium"
        decode |= {"columns": dict(found.changes.columns)} if found.changes.columns else {}
        to |= {"mode": "upsert", "keys": list(found.changes.keys)}
        to |= {"sequence": list(found.changes.sequence)} if found.changes.sequence else {}
    job = {
        "name": name,
        "source": {**({"bootstrap": bootstrap} if bootstrap else {}), "topics": [topic]},
        "decode": decode,
        "sink": to,
    }
    comments = "".join(f"# {said}.\n" for said in found.seen)
    return f"{comments}{yaml.safe_dump(job, sort_keys=False, allow_unicode=True, width=100)}"
