"""`infer`: proposes a job file for a topic, from a sample of its records, without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice, zip_longest
from typing import Any, Final

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.schemas.inference import Proposal, infer, schema_ids, written_fields
from sordini.pipeline.schemas.kept_schemas import KeptSchemas, RegistryUnavailable, UnknownId
from sordini.pipeline.schemas.registered_columns import schema_of_source, schema_of_versions
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.pipeline.source.batch import BatchReader
from sordini.pipeline.source.options import read_options

PREFIX: Final = "kafka_"
"""Before the record's columns where a field has the name of one."""


class _Memory(dict[str, Any]):
    """Keeps a registry's schemas for one command."""

    def read(self, name: str) -> dict[str, Any] | None:
        return self.get(name)

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        self[name] = dict(value)


def sample(topic: str, bootstrap: str, count: int) -> list[bytes | None]:
    """The first records of each partition, `count` together. Raises PipelineError."""
    options = read_options(
        {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", "columns": "value"},
        streaming=False,
    )
    reader = BatchReader(options)
    pieces = [_values(reader, piece) for piece in reader.partitions()]
    each = (value for row in zip_longest(*pieces, fillvalue=_END) for value in row if value is not _END)
    return list(islice(each, count))


_END: Final[Any] = object()


def _values(reader: BatchReader, piece: Any) -> Iterator[bytes | None]:
    return chain.from_iterable(batch.column("value").to_pylist() for batch in reader.read(piece))


def proposal(topic: str, values: list[bytes | None], registry: RegistrySettings | None) -> tuple[Proposal, bool]:
    """What the values are, and whether the registry's subject of the topic has the columns. Raises PipelineError."""
    ids = schema_ids([value for value in values if value is not None])
    if registry is None or not ids:
        return infer(values), False
    schemas = KeptSchemas(registry, _Memory())
    seen = [f"{len(values)} records were read, written with the schemas {', '.join(map(str, sorted(ids)))}"]
    try:
        schema_of_versions(f"{topic}-value", schemas.versions(f"{topic}-value"))
    except (RegistryUnavailable, PipelineError) as error:
        seen.append(f"the subject {topic}-value does not have the columns ({error}): they are those of the schemas")
    else:
        seen.append(f"the columns are those of the versions of {topic}-value, and follow them")
        return Proposal("schema_id_prefix", (), tuple(seen)), True
    sources = []
    for schema_id in sorted(ids):
        try:
            sources.append(schemas.source_of(schema_id))
        except UnknownId:
            seen.append(f"the registry has no schema {schema_id}: its records will be dead letters")
    if not sources:
        return infer(values), False
    found = schema_of_versions(topic, sources) if len(sources) > 1 else schema_of_source(sources[0], topic)
    return Proposal("schema_id_prefix", found.fields, tuple(seen)), False


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
    job = {
        "name": name,
        "source": {**({"bootstrap": bootstrap} if bootstrap else {}), "topics": [topic]},
        "decode": decode,
        "sink": {"kind": sink, "location": f"tables/{name}"},
    }
    comments = "".join(f"# {said}.\n" for said in found.seen)
    return f"{comments}{yaml.safe_dump(job, sort_keys=False, allow_unicode=True, width=100)}"
