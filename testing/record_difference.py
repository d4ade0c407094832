"""The difference between the records that a test expects and those that are there, to be read by people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sordini.packs.packed_records import KitRecord, Value, encoded


def difference(expected: Iterable[Value], records: Sequence[KitRecord], *, is_ordered: bool) -> str | None:
    """What differs between the expected values and the records, to be read by people; None when nothing does."""
    wanted = [encoded(value) for value in expected]
    found = [record.value for record in records]
    if not is_ordered:
        return _unordered(wanted, records)
    if wanted == found:
        return None
    lines = []
    for index in range(max(len(wanted), len(found))):
        want = shown(wanted[index]) if index < len(wanted) else "nothing"
        got = f"{shown(found[index])} at {_place(records[index])}" if index < len(found) else "nothing"
        same = index < len(wanted) and index < len(found) and wanted[index] == found[index]
        lines.append(f"  {index}: {want}" if same else f"- {index}: expected {want}\n+ {index}: found {got}")
    return "\n".join(lines)


def _unordered(wanted: list[bytes | None], records: Sequence[KitRecord]) -> str | None:
    missing = list(wanted)
    more = []
    for record in records:
        if record.value in missing:
            missing.remove(record.value)
        else:
            more.append(record)
    if not missing and not more:
        return None
    lines = [f"- missing: {shown(value)}" for value in missing]
    lines += [f"+ not expected: {shown(record.value)} at {_place(record)}" for record in more]
    return "\n".join(lines)


def shown(value: bytes | None) -> str:
    """A value for people: as text where it is text."""
    if value is None:
        return "a tombstone"
    try:
        return repr(value.decode())
    except UnicodeDecodeError:
        return repr(value)


def _place(record: KitRecord) -> str:
    return f"{record.topic}-{record.partition}@{record.offset}"
