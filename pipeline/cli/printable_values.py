"""A job or a schema as values that can be printed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from sordini.cli.common.settings_tree import Interval
from sordini.pipeline.schemas.avro import to_avro
from sordini.pipeline.schemas.column_types import spark_name
from sordini.pipeline.schemas.fields import Field, Schema
from sordini.pipeline.schemas.json_schema import to_json_schema

SECRET = (
    *("password", "jaas", "secret", "token", "credential", "key.pem", "keystore.key", "oauthbearer.config"),
    *("access_key", "access-key", "account_key", "account-key", "account.key", "master_key", "sas_key", "sas-"),
    *("encryption_key", "connection-string", "service_account"),
)
"""Parts of the names of settings whose values are hidden."""
_PASSWORD_OF_URL = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")
"""As in postgresql://user:password@host/catalog."""


def printable(value: Any) -> Any:
    """Values of a job as dicts, lists, texts and numbers; secrets are hidden, and fields without a `repr`."""
    if isinstance(value, Schema):
        return {field.name: _field_text(field) for field in value.fields}
    if isinstance(value, Interval):
        return value.text
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): "(hidden)" if _is_secret(str(name)) else printable(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return _all_of(value)
    if isinstance(value, str):
        return _PASSWORD_OF_URL.sub(r"\1(hidden)@", value)
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: printable(getattr(value, field.name)) for field in fields(value) if field.repr}
    return value


def schema_in(schema: Schema, form: str) -> str:
    """A schema as text: `spark`, `json` or `avro`."""
    if form == "spark":
        return ",\n".join(f"{field.name} {spark_name(field.type)}" for field in schema.fields)
    return json.dumps(to_avro(schema) if form == "avro" else to_json_schema(schema), indent=2)


def positions_text(offsets: Mapping[str, Mapping[int, int]]) -> str:
    """The next offset of each partition, by topic."""
    return ", ".join(f"{topic}-{number} at {at}" for topic, each in offsets.items() for number, at in each.items())


def _field_text(field: Field) -> str:
    sources = f" from {', '.join(field.sources)}" if field.sources else ""
    return f"{field.kind}{'!' if field.is_required else ''}{sources}"


def _all_of(values: tuple[Any, ...]) -> Any:
    """A list; of things with names, a mapping by them."""
    if values and all(hasattr(value, "name") and hasattr(value, "__dataclass_fields__") for value in values):
        return {value.name: printable(value) for value in values}
    return [printable(value) for value in values]


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in SECRET)
