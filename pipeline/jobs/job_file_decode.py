"""The section `decode` of a job file: how values become columns, and by which schemas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sordini.cli.common.settings_tree import Section
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job import Decode, DecodeMode
from sordini.pipeline.jobs.job_file_schema import avro_of_file, schema_in, schema_of_file
from sordini.pipeline.jobs.job_file_tree import check_named
from sordini.pipeline.jobs.job_file_upsert import changes_of, envelope_columns
from sordini.pipeline.schemas.fields import RecordColumns, Schema
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.pipeline.schemas.sources import is_name
from sordini.pipeline.schemas.values.text_values import has_text_form

KEPT: Final = ("key", "headers", "timestampType")
"""Columns of a record that a row may keep in addition to topic, partition, offset and timestamp."""
_PREFIX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def decode_of(section: Section, home: Path) -> Decode:
    mode = section.choice("mode", DecodeMode.RAW)
    if mode is DecodeMode.RAW and "schema" in section:
        section.wrong("schema", "says nothing where the mode is raw")
    registry = _registry(section, home, mode)
    schema = _schema(section, home) if _has_schema(section, mode, registry) else None
    decode = Decode(
        mode=mode,
        schema=schema,
        schemas=_writers(section, home) if mode is DecodeMode.SCHEMA_ID_PREFIX and registry is None else {},
        keep=section.texts("keep"),
        between=section.text("between", "&"),
        equals=section.text("equals", "="),
        registry=registry,
        record_prefix=section.text("record_prefix", ""),
        changes=changes_of(section, mode),
        columns=envelope_columns(section, {field.name: field.kind for field in schema.fields} if schema else {}),
    )
    if decode.record_prefix and not _PREFIX.fullmatch(decode.record_prefix):
        section.wrong("record_prefix", f"is {decode.record_prefix!r}: letters, digits and _, no digit first")
    for kept in decode.keep:
        if kept not in KEPT:
            section.wrong("keep", f"has {kept!r}; it can be {', '.join(KEPT)}")
    if mode is not DecodeMode.KEY_VALUE and ("between" in section or "equals" in section):
        section.wrong("", "has between or equals, which go with the mode key_value alone")
    for name in decode.columns:
        if name.lower() in decode.record:
            section.section("columns").wrong(name, f"cannot be: each row keeps its record's {name} there")
    if decode.schema is not None:
        _check_schema(section, decode, decode.schema)
    section.finish()
    return decode


def _check_schema(section: Section, decode: Decode, schema: Schema) -> None:
    """That the schema suits the mode and the columns of the record."""
    record = RecordColumns.prefixed(decode.record_prefix)
    try:
        schema.check_record_columns(record)
    except PipelineError as error:
        section.wrong("schema", f"cannot be: {error}")
    if {field.name for field in schema.fields} & {f"{decode.record_prefix}{name}" for name in decode.keep}:
        section.wrong("keep", "names a column that the schema has, too")
    if decode.mode is DecodeMode.KEY_VALUE:
        for field in schema.fields:
            if not has_text_form(field.type):
                section.wrong("schema", f"cannot be: {field.name} is a {field.kind}, which pairs have no text for")
            if not all(map(is_name, field.sources)):
                section.wrong("schema", f"cannot be: {field.name} is read from a path, and pairs have names alone")


def _has_schema(section: Section, mode: DecodeMode, registry: RegistrySettings | None) -> bool:
    if mode is DecodeMode.RAW:
        return False
    if registry is None or "schema" in section:
        if registry is not None and registry.subject:
            section.section("registry").wrong("subject", "says nothing where decode.schema has the columns")
        return True
    return False


def _registry(section: Section, home: Path, mode: DecodeMode) -> RegistrySettings | None:
    if "registry" not in section:
        return None
    if mode is not DecodeMode.SCHEMA_ID_PREFIX:
        section.wrong("registry", "says nothing where the mode is not schema_id_prefix")
    if "schemas" in section:
        section.wrong("schemas", "says nothing where decode.registry has the schemas")
    inner = section.section("registry")
    ca = inner.text("ca", "")
    settings = RegistrySettings(
        url=inner.text("url"),
        user=inner.text("user", ""),
        password=inner.text("password", ""),
        token=inner.text("token", ""),
        ca=str((home / ca).resolve()) if ca else "",
        subject=inner.text("subject", ""),
        wait_seconds=inner.interval("wait", "1 minute").seconds,
    )
    inner.finish()
    check_named(inner, settings.access)
    return settings


def _schema(section: Section, home: Path) -> Schema:
    if section.is_section("schema"):
        inner = section.section("schema")
        return schema_in(inner, inner.title)
    return section.take("schema", lambda written: schema_of_file(written, home))  # type: ignore[no-any-return]


def _writers(section: Section, home: Path) -> dict[int, str]:
    """Schema ids and their Avro schemas, each in a file."""
    inner = section.section("schemas")
    found: dict[int, str] = {}
    for name in inner.names():
        if not name.isdecimal() or int(name) > 2**31 - 1:
            inner.wrong(name, "is no id of a schema, which are whole numbers")
        found[int(name)] = inner.take(name, lambda written: avro_of_file(written, home))
    if not found:
        section.wrong(
            "schemas",
            "is missing: it says which schema has which id, as `1: views.avsc`; or decode.registry says where they are",
        )
    inner.finish()
    return found
