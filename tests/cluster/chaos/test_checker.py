"""The judge praises a history that keeps every law, and finds each anomaly that is planted in it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.chaos.checker import LAWS, violations, what_is_missing
from tests.cluster.chaos.events import (
    FAIL,
    INFO,
    OK,
    Commit,
    Committed,
    Dump,
    Fault,
    Files,
    Found,
    Full,
    History,
    Hw,
    LastRead,
    Outage,
    Own,
    Poll,
    Recorder,
    Send,
    State,
    Stopped,
    Txn,
    read,
)
from tests.cluster.chaos.files import committed_heads, index_problems, left_by
from tests.cluster.chaos.laws import counted_duplicates
from tests.cluster.chaos.outage_laws import availability, services
from tests.cluster.chaos.replica_laws import digest, first_acknowledgements, silences
from tests.support.builders import a_batch, some_records

TP = "t-0"
HEADS = [(0, 2, 0, 10), (2, 3, 0, 11), (3, 4, 2, 12)]


def sent(v: str, seq: int, off: int = -1, result: str = OK, *, pid: str = "w/1") -> Send:
    return Send(pid, seq, seq + 0.5, TP, v, off, result, seq, pid != "raw")


def a_run() -> list[NamedTuple]:
    """Five records, of which one is unclear and one refused; two epochs on three brokers; a group of two members."""
    dumps = [Dump(node, TP, *head, [f"v{head[0]}"]) for node in (1, 2, 3) for head in HEADS]
    return [
        sent("a", 0, 0),
        sent("b", 1, 1),
        sent("c", 2, 2),
        sent("d", 3, result=INFO),
        sent("e", 4, result=FAIL, pid="raw"),
        Poll("r", 0.0, 1.0, TP, [(0, "a"), (1, "b")]),
        Poll("r", 1.0, 2.0, TP, [(2, "c"), (3, "d")]),
        Txn("x", "committed", ["a", "b"]),
        Txn("y", "aborted", ["z"]),
        Own("g", 0.0, 1, "m1", [TP]),
        Own("g", 5.0, 2, "m2", [TP]),
        Commit("g", 1.0, 1.1, TP, 1, 1, "m1", OK),
        Commit("g", 6.0, 6.1, TP, 2, 2, "m2", OK),
        Commit("g", 7.0, 7.1, TP, 3, 2, "m2", INFO),
        Committed("g", TP, 3),
        Hw(1, TP, 0, 1, 2, 1.0),
        Hw(1, TP, 0, 3, 3, 2.0),
        Hw(2, TP, 2, 3, 4, 3.0),
        State(TP, 1, 0, [1, 2, 3], 0, 0.0),
        State(TP, 2, 2, [2, 3], 5, 3.0),
        State(TP, 2, 2, [2, 3, 1], 6, 4.0),
        Fault("KILL_LEADER", 1.5, 2.2, "broker 1"),
        Outage("frozen", 0.0, 2.0, []),
        LastRead(TP, [(0, "a"), (1, "b"), (2, "c"), (3, "d")]),
        *dumps,
        *(Files(node, TP, 4, [(0, 0), (2, 3)]) for node in (1, 2, 3)),
        Stopped(1, TP, 1.5, 3, digest(HEADS[:2])),
        Full(3.0),
    ]


def test_a_history_that_keeps_every_law_is_praised() -> None:
    assert violations(History(a_run())) == []


PLANTED: list[tuple[str, list[NamedTuple]]] = [
    ("I1", [sent("f", 5, 4)]),
    ("I2", [sent("f", 5, 4), LastRead(TP, [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "f"), (5, "f")])]),
    ("I3", [Poll("other", 0.0, 1.0, TP, [(1, "c")])]),
    ("I3", [sent("f", 5, 2)]),
    ("I4", [LastRead(TP, [(0, "b"), (1, "a"), (2, "c"), (3, "d")])]),
    ("I4", [sent("f", 5, 0, pid="w/2")]),
    ("I5", [LastRead(TP, [(0, "a"), (1, "b"), (2, "c"), (3, "e")])]),
    ("I5", [Poll("other", 0.0, 1.0, TP, [(0, "z")])]),
    ("I5", [Poll("other", 0.0, 1.0, TP, [(4, "d")])]),
    ("I6", [Txn("w", "committed", ["a", "f"])]),
    ("I6", [Txn("w", "aborted", ["a"])]),
    ("I6", [Txn("w", "unknown", ["a", "f"])]),
    ("I7", [Poll("r", 3.0, 4.0, TP, [(1, "b")])]),
    ("I7", [Poll("other", 3.0, 4.0, TP, [(0, "a"), (2, "c")])]),
    ("I8", [Hw(1, TP, 0, 2, 3, 2.5)]),
    ("I8", [Hw(2, TP, 2, 5, 4, 9.0)]),
    ("I8", [Hw(3, TP, 4, 2, 4, 9.0)]),
    ("I9", [Dump(3, TP, 4, 5, 2, 1, ["x"]), Files(3, TP, 5, [(0, 0), (2, 3)])]),
    ("I10", [Dump(1, TP, 4, 5, 1, 1, ["x"])]),
    ("I10", [State(TP, 3, 2, [3], 7, 5.0)]),
    ("I10", [Hw(3, TP, 2, 3, 4, 9.0)]),
    ("I10", [State(TP, 2, 1, [2], 7, 5.0)]),
    ("I10", [State(TP, 2, 2, [2], 4, 5.0)]),
    ("I10", [Files(1, TP, 4, [(0, 0)])]),
    ("I10", [Files(1, TP, 4, [(2, 3), (0, 0)])]),
    ("I11", [LastRead(TP, [(0, "a"), (1, "b"), (2, "c"), (3, "ghost")])]),
    ("I11", [Poll("other", 0.0, 1.0, TP, [(3, "ghost")])]),
    ("I12", [Own("g", 6.0, 2, "m1", [TP])]),
    ("I12", [Commit("g", 7.5, 7.6, TP, 3, 1, "m1", OK)]),
    ("I12", [Committed("g", TP, 1)]),
    ("I13", [Stopped(1, TP, 1.5, 3, digest(HEADS[:1]))]),
    ("I13", [Found("I13", "an index leads astray")]),
    ("I14", [Full(-1.0)]),
    ("I14", [Full(31.0)]),
    ("I14", [Fault("KILL_ALL", 5.0, 6.0, ""), sent("f", 60, result=INFO)]),
    ("I15", [Outage("cut off", 2.0, 30.0, [])]),
]


@pytest.mark.parametrize(("law", "planted"), PLANTED, ids=[f"{law}-{index}" for index, (law, _) in enumerate(PLANTED)])
def test_each_planted_anomaly_is_reported(law: str, planted: list[NamedTuple]) -> None:
    """A record that was read again last, or a group's last offset, replaces the former."""
    replaced = tuple(type(one) for one in planted if isinstance(one, LastRead | Committed))
    kept = [one for one in a_run() if not isinstance(one, replaced)]
    assert law in {line.split()[0] for line in violations(History([*kept, *planted]))}


def test_every_law_has_an_anomaly_that_it_finds() -> None:
    assert {law for law, _ in PLANTED} == set(LAWS) - {"seen"}


def test_a_batch_that_differs_below_the_committed_offset_is_reported_and_one_above_is_not() -> None:
    base, end, epoch, _ = HEADS[-1]
    other = Dump(3, TP, base, end, epoch, 99, ["x"])
    run = [one for one in a_run() if not (isinstance(one, Dump) and one.node == 3 and one.base == base)]
    marks = [one for one in run if not isinstance(one, Files)]
    below = [*marks, other, *(Files(node, TP, 4, [(0, 0), (2, 3)]) for node in (1, 2, 3))]
    assert [line.split()[0] for line in violations(History(below))] == ["I9"]
    above = [*marks, other, *(Files(node, TP, 3, [(0, 0), (2, 3)]) for node in (1, 2, 3))]
    assert violations(History(above)) == []


def test_an_in_sync_replica_that_lacks_committed_records_is_reported_and_one_out_of_sync_is_not() -> None:
    run = [one for one in a_run() if not (isinstance(one, Dump) and one.node == 3 and one.base == 3)]
    run = [one._replace(hw=3) if isinstance(one, Files) and one.node == 3 else one for one in run]
    assert {line.split()[0] for line in violations(History(run))} == {"I9"}
    assert violations(History([*run, State(TP, 2, 2, [1, 2], 7, 9.0)])) == []


def test_resending_by_hand_may_leave_a_value_twice_and_is_counted() -> None:
    run = [one for one in a_run() if not isinstance(one, LastRead)]
    last = LastRead(TP, [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "f"), (5, "f")])
    history = History([*run, sent("f", 5, result=INFO, pid="raw"), last])
    assert violations(history) == []
    assert counted_duplicates(history) == 1


def test_a_partition_that_is_written_late_after_a_heal_is_reported_with_its_time() -> None:
    late = History([*a_run(), Fault("KILL_ALL", 5.0, 6.0, ""), sent("f", 40, 4)])
    assert first_acknowledgements(late) == [pytest.approx(0.3), pytest.approx(34.5)]
    assert "I14" in {line.split()[0] for line in violations(late)}


def test_the_time_of_the_next_fault_is_none_that_a_partition_had_to_be_written_in() -> None:
    faults = [Fault("KILL_ALL", 5.0, 6.0, ""), Fault("KILL_TWO", 6.0, 25.0, ""), Fault("KILL_LEADER", 26.0, 27.0, "")]
    written = History([*a_run(), *faults, sent("f", 40, 4)])
    assert first_acknowledgements(written)[1:] == [pytest.approx(seconds) for seconds in (13.5, 14.5, 14.5)]
    assert "I14" not in {line.split()[0] for line in violations(written)}
    late = History([*a_run(), *faults, sent("f", 48, 4)])
    assert "I14" in {line.split()[0] for line in violations(late)}


def test_the_longest_silence_of_a_fault_begins_before_it_and_ends_after_its_heal() -> None:
    history = History([*a_run(), Fault("KILL_ALL", 5.0, 6.0, ""), sent("f", 40, 4)])
    assert silences(history) == [pytest.approx(1.0), pytest.approx(38.0)]


WITHOUT_ZOOKEEPER: dict[str, list[NamedTuple]] = {
    "acknowledged write": [sent("f", 24, 4)],
    "read": [Poll("r", 24.0, 25.0, TP, [(4, "f")])],
    "group commit": [Commit("g", 24.0, 25.0, TP, 3, 2, "m2", OK)],
}


@pytest.mark.parametrize("missing", WITHOUT_ZOOKEEPER)
@pytest.mark.parametrize("when", [None, 15.0, 31.0], ids=["never", "early", "late"])
def test_each_partition_goes_on_in_every_way_until_an_outage_ends(missing: str, when: float | None) -> None:
    """What was done in the first half of the outage, or after it, does not count."""
    outage = Outage("frozen", 10.0, 30.0, [])
    done = {what: events[0] for what, events in WITHOUT_ZOOKEEPER.items()}
    assert list(availability(History([sent("a", 0, 0), outage, *done.values()]))) == []
    left = [one for what, one in done.items() if what != missing]
    if when is not None:
        left.append(done[missing]._replace(t1=when))
    (line,) = availability(History([sent("a", 0, 0), outage, *left]))
    assert line.startswith(f"I15 {TP} has no {missing} ")


def test_a_write_that_is_unclear_or_a_commit_that_is_not_granted_is_no_service() -> None:
    events = [
        event._replace(result=INFO) if hasattr(event, "result") else event for (event,) in WITHOUT_ZOOKEEPER.values()
    ]
    (service,) = services(History([Outage("frozen", 10.0, 30.0, []), *events]))
    assert (service.writes, service.reads, service.commits, service.silence) == (0, 1, 0, 20.0)


def test_of_an_outage_the_partition_with_the_fewest_writes_and_the_longest_silence_is_reported() -> None:
    other = [Send("w/1", 12, 13, "t-1", "o", 0, OK, 9, True), Poll("r", 13, 14, "t-1", [(0, "o")])]
    both = [sent("f", 24, 4), sent("g", 26, 5), *WITHOUT_ZOOKEEPER["read"], *WITHOUT_ZOOKEEPER["group commit"]]
    (service,) = services(History([Outage("frozen", 10.0, 30.0, []), *other, *both]))
    assert (service.writes, service.reads, service.commits, service.silence) == (0, 0, 0, 17.0)


def test_with_a_broker_killed_in_an_outage_nothing_need_be_acknowledged() -> None:
    assert list(availability(History([sent("a", 0, 0), Outage("frozen", 10.0, 30.0, [2])]))) == []


def test_what_is_written_down_is_read_again_and_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    recorder = Recorder(path)
    for event in a_run():
        recorder.note(event)
    recorder.close()
    with path.open("a") as file:
        file.write('{"k":"full","sec')
    assert list(read([path])) == a_run()


def test_a_stopped_brokers_files_are_read_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / TP
    folder.mkdir()
    first = a_batch([record._replace(value=b"a ....") for record in some_records(1)], leader_epoch=1)
    second = a_batch([record._replace(value=b"b") for record in some_records(1, base_offset=1)], base_offset=1)
    (folder / f"{0:020d}.log").write_bytes(first + second)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    files, *dumps = left_by(1, tmp_path, TP)
    assert files == Files(1, TP, 2, [(1, 0)])
    assert [(one.base, one.end, one.vs) for one in dumps if isinstance(one, Dump)] == [(0, 1, ["a"]), (1, 2, ["b"])]
    assert [head[:2] for head in committed_heads(folder, 1)] == [(0, 1)]
    (folder / f"{0:020d}.log").write_bytes(first + second[:-1])
    assert [one.law for one in left_by(1, tmp_path, TP) if isinstance(one, Found)] == ["I13"]


def test_a_wrong_index_entry_is_reported() -> None:
    log = a_batch(2) + a_batch(2, base_offset=2)
    second = len(a_batch(2))
    right = (3).to_bytes(4, "big") + second.to_bytes(4, "big")
    assert list(index_problems(0, log, right + bytes(8))) == []
    wrong = (3).to_bytes(4, "big") + (second + 1).to_bytes(4, "big")
    assert len(list(index_problems(0, log, wrong))) == 1
    assert len(list(index_problems(0, log, right + right))) == 1


def test_a_run_that_did_less_than_its_plan_is_no_proof() -> None:
    whole = History(a_run())
    minutes = 3 / 20_000
    assert what_is_missing(whole, len(whole.faults), minutes) == []
    (line,) = what_is_missing(whole, len(whole.faults) + 1, minutes)
    assert line == "incomplete: 1 faults of 2"
    (line,) = what_is_missing(whole, 0, 1)
    assert line == "incomplete: 3 writes acknowledged of 20,000 at least"
    unread = History(event for event in a_run() if not isinstance(event, LastRead | Dump))
    assert len(what_is_missing(unread, 0, minutes)) == 2
