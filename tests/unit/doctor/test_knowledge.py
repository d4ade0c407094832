"""What is known of faults is whole: each has its sentences, and each sentence its facts."""

from __future__ import annotations

import re
import string

import pytest

from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.doctor.knowledge import ENTRIES
from sordini.doctor.knowledge.client_messages import MESSAGES
from sordini.doctor.report_text import WIDTH, report_lines, text_of


def fields_of(fault: Fault) -> set[str]:
    entry = ENTRIES[fault]
    texts = (entry.paragraph, entry.where, *entry.lines)
    return {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}


def found(fault: Fault) -> Finding:
    return Finding(fault, "broker-1:9092", dict.fromkeys(fields_of(fault) - {"at"}, "x"))


def test_every_fault_is_known_and_nothing_else() -> None:
    assert set(ENTRIES) == set(Fault)


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_a_fault_is_one_paragraph_with_a_line_that_mends_it(fault: Fault) -> None:
    finding = found(fault)
    assert "\n" not in finding.paragraph
    assert finding.paragraph.endswith((".", "x"))
    assert len(finding.paragraph) > 60
    assert finding.lines
    assert all(line.strip() for line in finding.lines)
    assert not finding.where.endswith((".", ":"))


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.value)
def test_a_report_fits_80_columns_but_for_lines_that_are_pasted(fault: Fault) -> None:
    report = Report("broker-1:9092, as a client reaches it by PLAINTEXT")
    report.found(
        "step", "a result that is long enough to be wrapped over more than one line of a terminal", found(fault)
    )
    pasted = {f"      {line}" for line in found(fault).lines}
    long = [line for line in map(text_of, report_lines(report)) if len(line) > WIDTH + 1 and line not in pasted]
    assert not long


def test_names_of_faults_are_words_with_hyphens() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", fault.value) for fault in Fault)
    assert len({fault.value for fault in Fault}) == len(Fault)


def test_messages_are_those_of_the_three_clients() -> None:
    assert all(set(lines) <= {"kafka-python", "librdkafka", "Java"} for lines in MESSAGES.values())
    assert all(line == line.strip() and line for by in MESSAGES.values() for lines in by.values() for line in lines)
