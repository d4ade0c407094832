"""Directories of brokers that were killed under load: acknowledged records are there, whichever broker starts on them next."""

from __future__ import annotations

import pytest

from tests.compat.interchange.journeys import ACKNOWLEDGED, KilledJourney
from tests.compat.interchange.served import Served

THEIRS, OURS = 0, 1

AT_ITS_START = "This error can be ignored if the cluster is starting up"
"""What Apache Kafka says itself of a client that asks for a coordinator before the broker knows that it is there."""


def by_offset(served: Served, partition: str) -> dict[int, bytes | None]:
    return {offset: value for offset, _, _, _, value, _ in served.records[partition]}


@pytest.mark.parametrize("stage", [THEIRS, OURS], ids=["ours-killed-theirs-recovers", "theirs-killed-ours-recovers"])
def test_every_acknowledged_record_is_served_at_its_offset(killed: KilledJourney, stage: int) -> None:
    found = by_offset(killed.stages[stage], "once-0")
    end_of_stage = max(found) + 1
    reported = {offset: value for offset, value in killed.acknowledged.records.items() if offset < end_of_stage}
    assert len(reported) > (stage + 1) * ACKNOWLEDGED
    assert {offset: found[offset] for offset in reported} == reported
    if stage == OURS:
        assert reported == killed.acknowledged.records
    assert list(found) == list(range(end_of_stage)), "no hole"


def test_the_records_from_before_the_load_are_the_same_in_both(killed: KilledJourney) -> None:
    for partition, records in killed.stages[THEIRS].records.items():
        kept = killed.stages[OURS].records[partition]
        start = killed.stages[OURS].bounds[partition][0]
        still = [row for row in records if row[0] >= start]
        assert kept[: len(still)] == still
        assert still or partition == "trimmed-0"


def test_committed_transactions_are_seen_and_aborted_ones_are_not(killed: KilledJourney) -> None:
    seen = {value for *_, value, _ in killed.stages[OURS].committed["money-0"]}
    assert set(killed.acknowledged.committed) <= seen
    assert not set(killed.acknowledged.aborted) & seen
    assert set(killed.acknowledged.aborted) <= set(by_offset(killed.stages[OURS], "money-0").values())


def test_both_say_that_they_recover(killed: KilledJourney) -> None:
    theirs = killed.outputs[1]
    assert "Skipping recovery" not in theirs
    assert "Recovering unflushed segment" in theirs
    errors = [line for line in theirs.splitlines() if "ERROR" in line and AT_ITS_START not in line]
    assert errors == []
