"""A report for a terminal of 80 columns: the steps, then each fault with its remedy and the clients' messages. Pure.

A line is spans: texts with a kind (wrong, ok, note, faint, name, or none), which a terminal may colour.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from sordini.doctor.findings import Check, Finding, Report
from sordini.doctor.knowledge import messages_of
from sordini.protocol.printable import counted, shown

WIDTH: Final = 79
_MARKS: Final = {True: ("ok", "ok"), False: ("WRONG", "wrong"), None: ("-", "faint")}
_NOTE: Final = ("note", "note")
"""Of a step, and its kind."""

Span = tuple[str, str]
Line = tuple[Span, ...]
EMPTY: Final[Line] = ()


def report_lines(report: Report) -> Iterator[Line]:
    """The lines of a report."""
    yield from map(_plain, _wrapped(report.subject, WIDTH))
    yield EMPTY
    steps = max((len(check.step) for check in report.checks), default=0)
    for check in report.checks:
        yield from _check_lines(check, steps)
    for finding, others in report.grouped():
        yield EMPTY
        yield from _finding_lines(finding, others)
    yield EMPTY
    yield _verdict(report)


def text_of(line: Line) -> str:
    """A line without its kinds."""
    return "".join(text for text, _ in line)


def _plain(text: str) -> Line:
    return ((text, ""),)


def _check_lines(check: Check, steps: int) -> Iterator[Line]:
    mark, kind = _NOTE if check.has_note else _MARKS[check.is_ok]
    first, *rest = _wrapped(check.result, WIDTH - steps - 11) or [""]
    yield ("  ", ""), (mark.ljust(5), kind), (f"  {check.step.ljust(steps)}  {first}", "")
    for line in rest:
        yield _plain(" " * (steps + 11) + line)


def _finding_lines(finding: Finding, others: Sequence[str]) -> Iterator[Line]:
    kind = "note" if finding.is_note else "wrong"
    yield (kind, kind), (": ", ""), (finding.fault.value, "name")
    yield EMPTY
    yield from _indented(finding.paragraph)
    if others:
        yield from _indented(f"The same at {', '.join(others)}.")
    yield EMPTY
    yield from _indented(f"What mends it, {finding.where}:")
    yield from ((("      ", ""), (shown(line), "name")) for line in finding.lines)
    messages = messages_of(finding.fault)
    if messages:
        yield EMPTY
        yield _plain("  What clients print in this case:")
        for client, lines in messages.items():
            yield _plain(f"    {client}")
            for line in lines:
                yield from _message_lines(line)


def _indented(text: str) -> Iterator[Line]:
    return (_plain(f"  {line}") for line in _wrapped(text, WIDTH - 2))


def _message_lines(message: str) -> Iterator[Line]:
    """Words stay whole: messages are searched for."""
    wrapped = textwrap.wrap(
        shown(message), WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8, break_long_words=False
    )
    return (((part, "faint"),) for part in wrapped)


def _verdict(report: Report) -> Line:
    kinds = [finding.is_note for finding, _ in report.grouped()]
    notes, wrong = kinds.count(True), kinds.count(False)
    also = f" ({counted(notes, 'note')})" if notes else ""
    if not wrong:
        return ("All is well", "ok"), (f"{also}.", "")
    things = "1 thing is wrong" if wrong == 1 else f"{wrong} things are wrong"
    return (things, "wrong"), (f"{also}.", "")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(shown(text), width, break_long_words=False, break_on_hyphens=False)
