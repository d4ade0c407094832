"""The columns that identify rows: where the row, or the record's key, has them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from sordini.pipeline.schemas.fields import Schema
from sordini.pipeline.schemas.sources import Step, source_of

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Key(NamedTuple):
    """One of them. The first of its places that has a value counts."""

    name: str
    places: tuple[tuple[Step, ...], ...]
    is_text: bool = False
    """Whether a single value is a text as it is, also one such as 007 or 1e5 that looks like a number."""

    @property
    def json_paths(self) -> tuple[str, ...]:
        """The places as Spark's functions of JSON take them."""
        return tuple(f"${''.join(map(_step, place))}" for place in self.places)

    @property
    def around(self) -> tuple[str, str]:
        """What of a JSON object is before and behind its only value, so that it is this key's."""
        names = next((place for place in self.places if all(isinstance(step, str) for step in place)), (self.name,))
        return "".join(f"{{{json.dumps(name)}:" for name in names), "}" * len(names)


def keys_of(names: Iterable[str], schema: Schema) -> tuple[Key, ...]:
    """The keys among the fields of a schema; all of them by their names if it has none of them."""
    fields = {field.name: field for field in schema.fields}
    wanted = tuple(names)
    known = [fields[name] for name in wanted if name in fields]
    if not known:
        return tuple(Key(name, ((name,),)) for name in wanted)
    return tuple(
        Key(each.name, tuple(map(source_of, each.sources)) or ((each.name,),), each.kind == "string") for each in known
    )


def _step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _NAME.fullmatch(step) else f"['{step}']"
