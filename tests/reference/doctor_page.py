"""The tables of docs/doctor.md, from what is known of faults and from the messages of clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge import ENTRIES
from sordini.doctor.knowledge.client_messages import MESSAGES

PAGE: Final = Path(__file__).parents[2] / "docs" / "doctor.md"
FAULTS: Final = "| name | what is wrong |\n| --- | --- |\n"
PRINTED: Final = "| message | client | fault |\n| --- | --- | --- |\n"
_FIELD: Final = re.compile(r"\{(\w+)\}")
_SENTENCE: Final = re.compile(r"(?<=[.]) (?=[A-Z{`])")


def page() -> str:
    """The page with these tables in place of those that it has."""
    text = PAGE.read_text(encoding="utf-8")
    for head, lines in ((FAULTS, fault_rows()), (PRINTED, message_rows())):
        before, found, after = text.partition(head)
        assert found, f"{PAGE}: the head of a table is missing: {head!r}"
        _, gap, rest = after.partition("\n\n") if not after.startswith("\n") else ("", "\n\n", after[1:])
        text = before + head + "".join(lines) + gap[1:] + rest
    return text


def fault_rows() -> Iterator[str]:
    """Each fault with the first sentence of its paragraph."""
    for fault in Fault:
        entry = ENTRIES[fault]
        first = _SENTENCE.split(entry.paragraph)[0]
        note = "note: " if entry.is_note else ""
        yield f"| `{fault.value}` | {note}{_escaped(_FIELD.sub(_named, first))} |\n"


def message_rows() -> Iterator[str]:
    """Each message once, with all faults behind it."""
    faults: dict[tuple[str, str], list[str]] = {}
    for fault, by_client in MESSAGES.items():
        for client, lines in by_client.items():
            for line in lines:
                faults.setdefault((line, client), []).append(f"`{fault.value}`")
    for (line, client), names in sorted(faults.items(), key=lambda row: (row[0][1], row[0][0])):
        yield f"| `{_escaped(line)}` | {client} | {', '.join(names)} |\n"


def _named(field: re.Match[str]) -> str:
    return f"*{field[1].replace('_', ' ')}*"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
