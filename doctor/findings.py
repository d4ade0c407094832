"""What an examination hands back: the steps it took, and the faults it found with their facts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sordini.doctor.faults import Fault
from sordini.doctor.knowledge import entry_of, messages_of
from sordini.system.named_tuple import NamedTuple


class Finding(NamedTuple):
    """One fault, and where."""

    fault: Fault
    at: str
    """The address, file, directory or key."""
    facts: Mapping[str, str] = {}
    """What the sentences about it name: host, port, the system's reason."""

    @property
    def is_note(self) -> bool:
        """Whether clients work all the same."""
        return entry_of(self.fault).is_note

    @property
    def paragraph(self) -> str:
        """What is wrong, in one paragraph."""
        return entry_of(self.fault).paragraph.format_map({"at": self.at, **self.facts})

    @property
    def where(self) -> str:
        """Where the remedy belongs."""
        return entry_of(self.fault).where.format_map({"at": self.at, **self.facts})

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that mend it."""
        return tuple(line.format_map({"at": self.at, **self.facts}) for line in entry_of(self.fault).lines)


class Check(NamedTuple):
    """One step: what was done, and what came of it."""

    step: str
    result: str
    is_ok: bool | None = True
    """None: it was left out; the result says why."""
    has_note: bool = False


class Report:
    """The steps in their order, and the findings."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        """What was examined, for the first line."""
        self.checks: list[Check] = []
        self.findings: list[Finding] = []

    def ok(self, step: str, result: str) -> None:
        """A step that found nothing wrong."""
        self.checks.append(Check(step, result))

    def skipped(self, step: str, result: str) -> None:
        """A step that was not taken."""
        self.checks.append(Check(step, result, None))

    def found(self, step: str, result: str, finding: Finding) -> None:
        """A step that found a fault; a note leaves the step in order."""
        self.checks.append(Check(step, result, finding.is_note, finding.is_note))
        self.findings.append(finding)

    @property
    def wrong(self) -> list[Finding]:
        """The findings because of which a client, or a broker, does not work as it should."""
        return [finding for finding in self.findings if not finding.is_note]

    @property
    def is_well(self) -> bool:
        return not self.wrong

    def grouped(self) -> Iterator[tuple[Finding, list[str]]]:
        """The findings, what is wrong before the notes; each fault once, with the other places where it was found."""
        others: dict[Fault, list[str]] = {}
        first: dict[Fault, Finding] = {}
        for finding in sorted(self.findings, key=lambda one: one.is_note):
            if finding.fault in first:
                others[finding.fault].append(finding.at)
            else:
                first[finding.fault], others[finding.fault] = finding, []
        for fault, finding in first.items():
            yield finding, others[fault]

    def as_json(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "subject": self.subject,
            "well": self.is_well,
            "checks": [{"step": check.step, "ok": check.is_ok, "result": check.result} for check in self.checks],
            "findings": [
                {
                    "fault": finding.fault.value,
                    "note": finding.is_note,
                    "at": [finding.at, *others],
                    "paragraph": finding.paragraph,
                    "remedy": {"where": finding.where, "lines": list(finding.lines)},
                    "messages": {client: list(lines) for client, lines in messages_of(finding.fault).items()},
                }
                for finding, others in self.grouped()
            ],
        }
