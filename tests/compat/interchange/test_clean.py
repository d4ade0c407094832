"""Directories after an orderly stop: Apache Kafka continues with ours, and Sordini with Apache Kafka's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compat.interchange.cluster import settings_of
from tests.compat.interchange.journeys import DIRECTORY_ID, STRAY, CleanJourney
from tests.compat.interchange.loads import GROUPS, TOPICS
from tests.outside.tools import JavaTools

OURS_1, THEIRS_1, OURS_2, THEIRS_2 = range(4)
HANDOVERS = [(OURS_1, THEIRS_1), (THEIRS_1, OURS_2), (OURS_2, THEIRS_2)]
MARKER = ".kafka_cleanshutdown"

handover = pytest.mark.parametrize(
    ("before", "after"), HANDOVERS, ids=["ours-to-theirs", "theirs-to-ours", "and-back-again"]
)
stage = pytest.mark.parametrize("stage", range(4), ids=["ours", "theirs", "ours-again", "theirs-again"])


def files(journey: CleanJourney, stage: int, pattern: str) -> list[Path]:
    """Files of the copy, those of deleted and stray partitions aside."""
    matching = sorted(journey.stages[stage].files.glob(pattern))
    found = [path for path in matching if not path.parent.name.endswith(("-delete", "-stray"))]
    assert found, f"there is no {pattern}"
    return found


@handover
def test_the_next_broker_serves_the_same_records(clean: CleanJourney, before: int, after: int) -> None:
    left, found = clean.stages[before].last, clean.stages[after].first
    assert left.records == found.records
    assert left.committed == found.committed
    assert all(left.records.values())
    codecs = left.records["codecs-0"]
    assert {len(headers) for *_, headers in codecs} == {0, 1, 2, 3}
    assert {None} < {key for _, _, _, key, _, _ in codecs}
    assert any(value is None for *_, value, _ in codecs)


@handover
def test_the_next_broker_has_the_same_bounds(clean: CleanJourney, before: int, after: int) -> None:
    left, found = clean.stages[before].last.bounds, clean.stages[after].first.bounds
    assert left == found
    start, stable, end = found["trimmed-0"]
    assert 0 < start < stable == end
    _, stable, end = found["money-1"]
    assert stable < end, "a transaction is open"


@handover
def test_the_next_broker_knows_the_same_committed_offsets(clean: CleanJourney, before: int, after: int) -> None:
    left, found = clean.stages[before].last.groups, clean.stages[after].first.groups
    assert left == found
    assert set(found) == set(GROUPS)
    assert found["members"] == {f"once-{part}": (50 * (before + 1), None) for part in range(2)}
    assert found["by-hand"]["codecs-1"] == (3 + before + 1, f"round {before + 1}")
    assert found["in-transactions"] == {"once-0": (10 * (before + 1) + 1, None)}


def test_aborted_records_stay_hidden_wherever_the_files_go(clean: CleanJourney) -> None:
    for stages, found in (
        (1, clean.stages[THEIRS_1].first),
        (2, clean.stages[THEIRS_1].last),
        (2, clean.stages[OURS_2].first),
        (3, clean.stages[THEIRS_2].first),
    ):
        assert len(found.records["money-0"]) - len(found.committed["money-0"]) == 50 * stages


def test_a_transaction_that_was_open_in_the_files_is_ended_by_its_coordinator_afterwards(clean: CleanJourney) -> None:
    before, after = clean.stages[THEIRS_2].first, clean.stages[THEIRS_2].last
    assert before.bounds["money-1"][1] < before.bounds["money-1"][2]
    _, stable, end = after.bounds["money-1"]
    assert stable == end == before.bounds["money-1"][2] + 1, "the marker"
    hidden = [row for row in after.records["money-1"] if row not in after.committed["money-1"]]
    assert len(hidden) == 3 * 51, "aborted in each stage before, and left open"
    assert hidden[-1][4] == b"never settled"


@pytest.mark.parametrize("stage", [THEIRS_1, THEIRS_2])
def test_apache_kafka_recovers_nothing_and_deletes_nothing(clean: CleanJourney, stage: int) -> None:
    passed = clean.stages[stage]
    assert passed.harm == []
    assert re.search(r"Skipping recovery .*since clean shutdown file was found", passed.said)
    assert "Log cleanup completed" in passed.said, "so it has looked for segments to delete"


def test_ours_finds_nothing_to_mend(clean: CleanJourney) -> None:
    reported = [line for line in clean.stages[OURS_2].said.splitlines() if re.search(r"\[(warning|error)", line)]
    assert all(STRAY in line and "left alone" in line for line in reported)


@stage
def test_indexes_are_trimmed_and_there_is_a_snapshot_at_the_end(clean: CleanJourney, stage: int) -> None:
    """As both leave them: a padded index beside the marker makes Apache Kafka delete the partition."""
    ends = clean.stages[stage].last.bounds
    assert all(path.stat().st_size % 8 == 0 for path in files(clean, stage, "*/*.index"))
    assert all(path.stat().st_size % 12 == 0 for path in files(clean, stage, "*/*.timeindex"))
    for path in files(clean, stage, "*/*index"):
        assert path.stat().st_size < 4_096, path
        assert not path.read_bytes().endswith(bytes(8)), path
    for topic, (partitions, _) in TOPICS.items():
        for partition in range(partitions):
            at = f"{topic}-{partition}"
            assert files(clean, stage, f"{at}/{ends[at][2]:020d}.snapshot")


@stage
def test_the_marker_and_every_checkpoint_are_there(clean: CleanJourney, stage: int) -> None:
    passed = clean.stages[stage]
    assert (passed.files / MARKER).exists()
    for name, column in (("recovery-point-offset-checkpoint", 2), ("replication-offset-checkpoint", 2)):
        entries = checkpoint(passed.files / name)
        assert {at: entries[at] for at in passed.last.bounds} == {
            at: bounds[column] for at, bounds in passed.last.bounds.items()
        }
    assert checkpoint(passed.files / "log-start-offset-checkpoint")["trimmed-0"] == passed.last.bounds["trimmed-0"][0]


def checkpoint(path: Path) -> dict[str, int]:
    version, count, *lines = path.read_text().splitlines()
    assert (version, int(count)) == ("0", len(lines))
    rows = [line.split(" ") for line in lines]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}


def test_the_identity_of_directory_and_topics_goes_from_hand_to_hand(clean: CleanJourney) -> None:
    metas = [settings_of(passed.files / "meta.properties") for passed in clean.stages]
    assert len({(meta["version"], meta["broker.id"], meta["cluster.id"]) for meta in metas}) == 1
    assert metas[OURS_2]["directory.id"] == DIRECTORY_ID
    if clean.version != "2.7.2":  # Which leaves out the keys it does not know.
        assert metas[THEIRS_2]["directory.id"] == DIRECTORY_ID
    for topic in TOPICS:
        ids = {(passed.files / f"{topic}-0" / "partition.metadata").read_text().strip() for passed in clean.stages}
        assert len(ids) == 1


@handover
def test_the_next_coordinator_continues_the_records_of_transactions(
    clean: CleanJourney, before: int, after: int
) -> None:
    def written(stage: int) -> dict[str, bytes]:
        paths = files(clean, stage, "__transaction_state-*/*.log")
        return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in paths}

    left, found = written(before), written(after)
    assert any(left.values())
    assert left.keys() == found.keys()
    assert all(found[name].startswith(records) for name, records in left.items())
    assert left != found


@stage
def test_directories_of_deleted_topics_are_no_hindrance(clean: CleanJourney, stage: int) -> None:
    assert stage == THEIRS_2 or list(clean.stages[stage].files.glob("doomed-0.*-delete"))
    if stage in (OURS_2, THEIRS_2) and clean.version != "2.7.2":
        assert (clean.stages[stage].files / STRAY).exists()


def test_a_broker_refuses_a_directory_in_which_the_other_kind_runs(clean: CleanJourney) -> None:
    assert re.search(r"/data is in use by another broker, process \d+$", clean.refusals["ours"].strip())
    assert "Failed to acquire lock on file .lock" in clean.refusals["theirs"]


@pytest.mark.parametrize("stage", [OURS_1, OURS_2], ids=["ours", "ours-again"])
@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("[!_]*/*.log", ["--deep-iteration", "--print-data-log"]),
        ("*/*.index", ["--index-sanity-check"]),
        ("*/*index", ["--verify-index-only"]),
        ("*/*.snapshot", []),
        ("__consumer_offsets-*/*.log", ["--offsets-decoder", "--deep-iteration"]),
        ("__transaction_state-*/*.log", ["--transaction-log-decoder", "--deep-iteration"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_dump_log_segments_reads_every_file_without_a_complaint(
    clean: CleanJourney, tool: JavaTools, stage: int, pattern: str, options: list[str]
) -> None:
    paths = files(clean, stage, pattern)
    printed = tool("kafka.tools.DumpLogSegments", "--files", ",".join(map(str, paths)), *options)
    assert printed.count("Dumping ") == len(paths)
    complaints = r"ismatch|invalid|isvalid: false|corrupt|Could not|exception|error|unknown|Found |out of order"
    assert not [line for line in printed.splitlines() if re.search(complaints, line, re.IGNORECASE)]
