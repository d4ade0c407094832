"""Masks: a user's function that is given each record before it is written, and returns what is written for it.

def hide(record: KitRecord) -> KitRecord | None:
    return record._replace(key=None, value={**record.json, "name": "..."})      # None leaves the record out
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sordini.packs.packed_records import KitRecord, encoded, kit_record
from sordini.protocol.records.batch import Record

Mask = Callable[[KitRecord], KitRecord | None]
INT64_MAX: Final = 2**63 - 1
_OWN: Final = (__file__, importlib.__file__)


class MaskError(ValueError):
    """A mask cannot be imported, failed, or returned what is no record; the text names it, and the record."""


def import_mask(text: str) -> Mask:
    """The function that `MODULE:CALLABLE` names, also in the current directory. Raises MaskError."""
    module, colon, path = text.partition(":")
    if not (colon and module and path):
        raise MaskError(f"{text!r} is not MODULE:CALLABLE, such as shop.masks:hide")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:  # All of them - the module is the user's, and anything may happen in it.
        raise MaskError(f"{text}: {_shown(error)}") from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise MaskError(f"{text}: it cannot be called")
    mask: Mask = found
    return mask


def masked(mask: Mask, name: str, topic: str, partition: int, record: Record) -> Record | None:
    """What is written for a record; None: nothing. Raises MaskError."""
    given = kit_record(topic, partition, record)
    try:
        made = mask(given)
        return None if made is None else _checked(given, made)
    except Exception as error:  # All of them - the function is the user's.
        place = f"partition {partition} of topic {topic!r}, offset {record.offset}"
        raise MaskError(f"{name} failed at {place}: {_shown(error)}") from error


def _checked(given: KitRecord, made: Any) -> Record:
    """A mask's record. Raises TypeError and ValueError."""
    if not isinstance(made, KitRecord):
        raise TypeError(
            f"it returned {type(made).__name__}: allowed are a KitRecord, such as record._replace(...), and None"
        )
    if made[:3] != given[:3]:
        raise ValueError(
            f"it moved the record to {made.topic}-{made.partition}@{made.offset}: a record stays at its place"
        )
    timestamp_ms: Any = made.timestamp_ms
    if not isinstance(timestamp_ms, int) or not -INT64_MAX - 1 <= timestamp_ms <= INT64_MAX:
        raise ValueError(f"timestamp_ms={timestamp_ms!r}: allowed are milliseconds since 1970, and -1 for none")
    headers = []
    for name, value in made.headers:
        if not isinstance(name, str):  # The user's code may not be type checked.
            raise TypeError(f"header {name!r}: allowed is a text as its name")
        headers.append((name, encoded(value)))
    return Record(made.offset, timestamp_ms, encoded(made.key), encoded(made.value), tuple(headers))


def _shown(error: Exception) -> str:
    """An exception, with the line of the user's code that it comes from."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    trace = traceback.extract_tb(error.__traceback__)
    frames = [one for one in trace if one.filename not in _OWN and not one.filename.startswith("<")]
    return f"{text} ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else text
