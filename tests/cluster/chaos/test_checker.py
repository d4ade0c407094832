"""The judge praises a history that keeps every law, and finds each anomaly that is planted in it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.chaos.checker import LAWS, violations, what_is_missing
from tests.cluster.chaos.events import (
    ABORTED,
    COMMITTED,
    COMMITTING,
    FAIL,
    INFO,
    OK,
    OPEN,
    UNKNOWN,
    Began,
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
    Late,
    Outage,
    Own,
    Poll,
    Recorder,
    Send,
    Stable,
    State,
    Stopped,
    Tried,
    Txn,
    read,
)
from tests.cluster.chaos.laws import counted_duplicates
from tests.cluster.chaos.outage_laws import availability, services
from tests.cluster.chaos.replica_laws import digest, first_acknowledgements, liveness, silences
from tests.cluster.chaos.transaction_laws import COPY_GROUP, COPY_SOURCE, COPY_TARGET, tally

TP = "t-0"
HEADS = [(0, 2, 0, 10), (2, 3, 0, 11), (3, 4, 2, 12)]


def sent(v: str, seq: int, off: int = -1, result: str = OK, *, pid: str = "w/1") -> Send:
    return Send(pid, seq, seq + 0.5, TP, v, off, result, seq, pid != "raw")


def began(number: int, t0: float, t1: float) -> Began:
    return Began("x", f"x.{number}/1", t0, t1)


def txn(number: int, state: str, t: float, *recs: tuple[str, int, str], life: int = 1) -> Txn:
    return Txn(f"x.{life}/1/{number}", state, list(recs), "x", f"x.{life}/1", t)


def ended(number: int, state: str, t: float, *recs: tuple[str, int, str], life: int = 1) -> list[NamedTuple]:
    """A transaction from its beginning to its end a second later; its commit is requested half a second before."""
    asked = [txn(number, COMMITTING, t + 0.5, *recs, life=life)] if state != ABORTED else []
    last = [txn(number, state, t + 1, *recs, life=life)] if state in (COMMITTED, ABORTED) else []
    return [txn(number, OPEN, t, *recs, life=life), *asked, *last]


def refused(*recs: tuple[str, int, str]) -> list[NamedTuple]:
    """A transaction whose commit was requested and did not happen, so that its producer aborted it."""
    return [txn(9, state, 7.3, *recs, life=2) for state in (OPEN, COMMITTING, ABORTED)]


SOURCE, TARGET = f"{COPY_SOURCE}-0", f"{COPY_TARGET}-0"


def a_life() -> list[NamedTuple]:
    """Transactions of two lives on a topic that is copied: of the second one, the first was copied in two attempts."""
    tried = [(TARGET, 0, "p@0@c/1"), (TARGET, 1, "q@1@c/1")]
    copied = [(TARGET, 3, "p@0@c/2"), (TARGET, 4, "q@1@c/2")]
    return [
        began(1, 0.0, 0.1),
        *ended(1, COMMITTED, 0.2, (SOURCE, 0, "p"), (SOURCE, 1, "q")),
        *ended(2, ABORTED, 2.2, (SOURCE, 3, "aborted")),
        *ended(3, UNKNOWN, 3.4, (SOURCE, 5, "unknown"), ("t-1", -1, "unknown too")),
        *ended(4, ABORTED, 4.6, *tried),
        *ended(5, COMMITTED, 5.8, *copied),
        began(2, 7.0, 7.1),
        txn(1, OPEN, 7.2, (SOURCE, -1, "killed"), life=2),
        *ended(2, COMMITTED, 9.0, ("t-1", -1, "r"), life=2),
        Late("x.2/1/2", -1, 9.2),
        LastRead(SOURCE, [(0, "p"), (1, "q")]),
        LastRead(TARGET, [(3, "p@0@c/2"), (4, "q@1@c/2")]),
        LastRead("t-1", [(0, "r")]),
        Poll("r", 0.7, 0.8, SOURCE, [(0, "p")]),
        Committed(COPY_GROUP, SOURCE, 2),
        *(Dump(1, tp, 0, 1, 0, 1, []) for tp in (SOURCE, TARGET, "t-1")),
        Stable(SOURCE, 7, 7),
        Stable(TARGET, 6, 6),
        *(Stable(tp, 4, 4) for tp in (TP, "t-1")),
    ]


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
        *a_life(),
        Own("g", 0.0, 1, "m1", [TP]),
        Own("g", 5.0, 2, "m2", [TP]),
        Commit("g", 1.0, 1.1, TP, 1, 1, "m1", OK),
        Commit("g", 6.0, 6.1, TP, 2, 2, "m2", OK),
        Commit("g", 7.0, 7.1, TP, 3, 2, "m2", INFO),
        Committed("g", TP, 3),
        Hw(1, TP, 0, 1, 2, 1.0, 1),
        Hw(1, TP, 0, 3, 3, 2.0, 2),
        Hw(2, TP, 2, 3, 4, 3.0, 3),
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
    ("I2", [LastRead(SOURCE, [(0, "p"), (1, "q"), (2, "q")])]),
    ("I2", [sent("f", 5, 4), LastRead(TP, [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "f"), (5, "f")])]),
    ("I3", [Poll("other", 0.0, 1.0, TP, [(1, "c")])]),
    ("I3", [sent("f", 5, 2)]),
    ("I3", [LastRead(SOURCE, [(0, "p"), (2, "q")])]),
    ("I4", [LastRead(TP, [(0, "b"), (1, "a"), (2, "c"), (3, "d")])]),
    ("I4", [sent("f", 5, 0, pid="w/2")]),
    ("I4", [LastRead(SOURCE, [(0, "q"), (1, "p")])]),
    ("I5", [LastRead(TP, [(0, "a"), (1, "b"), (2, "c"), (3, "e")])]),
    ("I5", [Poll("other", 0.0, 1.0, TP, [(4, "d")])]),
    ("I5", [Poll("other", 0.5, 0.6, SOURCE, [(0, "p")])]),
    ("I5", [Poll("other", 8.0, 8.1, "t-1", [(0, "r")])]),
    ("I5", [Poll("other", 8.0, 8.1, SOURCE, [(3, "aborted")])]),
    ("I5", [Poll("other", 8.0, 8.1, SOURCE, [(7, "killed")])]),
    ("I5", [*refused(("t-1", 3, "refused")), Poll("other", 9.0, 9.1, "t-1", [(0, "refused")])]),
    ("I6", [LastRead("t-1", [])]),
    ("I6", [LastRead(SOURCE, [(0, "p")])]),
    ("I6", [LastRead(SOURCE, [(0, "p"), (1, "q"), (3, "aborted")])]),
    ("I6", [LastRead(SOURCE, [(0, "p"), (1, "q"), (7, "killed")])]),
    ("I6", [LastRead(SOURCE, [(0, "p"), (1, "q"), (5, "unknown")])]),
    ("I6", [LastRead("t-1", [(0, "q"), (1, "r")]), LastRead(SOURCE, [(0, "p")])]),
    ("I6", [*ended(9, COMMITTED, 7.2, ("t-1", 0, "r"))]),
    ("I6", [Late("x.2/1/2", 0, 9.2)]),
    ("I7", [Poll("r", 3.0, 4.0, TP, [(1, "b")])]),
    ("I7", [Poll("other", 3.0, 4.0, TP, [(0, "a"), (2, "c")])]),
    ("I7", [Poll("other", 3.0, 4.0, TP, [(1, "b"), (2, "c")])]),
    ("I7", [Poll("other", 8.0, 9.0, SOURCE, [(1, "q")])]),
    ("I8", [Hw(1, TP, 0, 2, 3, 2.5, 2)]),
    ("I8", [Hw(2, TP, 2, 5, 4, 9.0, 5)]),
    ("I8", [Hw(3, TP, 4, 2, 4, 9.0, 2)]),
    ("I8", [Hw(1, TP, 0, 3, 3, 2.5, 1)]),
    ("I8", [Hw(1, TP, 0, 3, 4, 2.5, 4)]),
    ("I9", [Dump(3, TP, 4, 5, 2, 1, ["x"]), Files(3, TP, 5, [(0, 0), (2, 3)])]),
    ("I10", [Dump(1, TP, 4, 5, 1, 1, ["x"])]),
    ("I10", [State(TP, 3, 2, [3], 7, 5.0)]),
    ("I10", [Hw(3, TP, 2, 3, 4, 9.0, 3)]),
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
    ("I14", [Fault("KILL_ALL", 11.0, 12.0, "")]),
    ("I14", [Fault("KILL_ALL", 11.0, 12.0, ""), *ended(9, ABORTED, 13.0, ("t-1", -1, "aborted too"))]),
    ("I15", [Outage("cut off", 2.0, 30.0, [])]),
    ("I16", [LastRead(TARGET, [(3, "p@0@c/2")])]),
    ("I16", [LastRead(TARGET, [(3, "p@0@c/2")]), Committed(COPY_GROUP, SOURCE, 1)]),
    ("I16", [LastRead(TARGET, [(3, "q@1@c/2"), (4, "p@0@c/2")])]),
    ("I16", [LastRead(TARGET, [(3, "p@0@c/2"), (4, "q@1@c/2"), (5, "q@1@c/3")])]),
    ("I16", [LastRead(TARGET, [(3, "p@0@c/2"), (4, "q@2@c/2")])]),
    ("I16", [Committed(COPY_GROUP, SOURCE, 1)]),
    ("I16", [LastRead(SOURCE, [(0, "p"), (1, "q"), (5, "unknown")]), Committed(COPY_GROUP, SOURCE, 6)]),
    ("I17", [Stable(TARGET, 5, 6)]),
    ("I18", [Tried("without TLS", "fetch", 29, 7.0), Tried("without TLS", "fetch", 0, 8.0)]),
]


@pytest.mark.parametrize(("law", "planted"), PLANTED, ids=[f"{law}-{index}" for index, (law, _) in enumerate(PLANTED)])
def test_each_planted_anomaly_is_reported(law: str, planted: list[NamedTuple]) -> None:
    """What was read last, or a group's last offset, replaces that of the same partition."""
    replaced = {(type(one), one.tp) for one in planted if isinstance(one, LastRead | Committed)}
    kept = [one for one in a_run() if (type(one), getattr(one, "tp", "")) not in replaced]
    assert law in {line.split()[0] for line in violations(History([*kept, *planted]))}


def test_every_law_has_an_anomaly_that_it_finds() -> None:
    assert {law for law, _ in PLANTED} == {law.split()[0] for law in LAWS} - {"seen"}


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
    run = [one for one in a_run() if not (isinstance(one, LastRead) and one.tp == TP)]
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
    assert list(liveness(written)) == []
    assert len(list(liveness(History([*a_run(), *faults, sent("f", 48, 4)])))) == 3


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


def test_a_transaction_whose_commit_was_not_requested_is_aborted_and_one_without_an_answer_is_unknown() -> None:
    history = History(a_life())
    outcomes = [one.outcome for one in history.transactions]
    assert outcomes == [COMMITTED, ABORTED, UNKNOWN, ABORTED, COMMITTED, ABORTED, COMMITTED]
    found = tally(history)
    assert found[:7] == (3, 3, 1, 5, 2, 2, 1)
    assert found.wait == pytest.approx(5.6)


def test_an_unknown_transaction_may_be_there_as_a_whole() -> None:
    kept = [one for one in a_run() if not (isinstance(one, LastRead | Committed) and one.tp in (SOURCE, TARGET, "t-1"))]
    copied = [(3, "p@0@c/2"), (4, "q@1@c/2"), (6, "unknown@5@c/3")]
    last = [
        LastRead(SOURCE, [(0, "p"), (1, "q"), (5, "unknown")]),
        LastRead("t-1", [(0, "r"), (3, "unknown too")]),
        LastRead(TARGET, copied),
        Committed(COPY_GROUP, SOURCE, 6),
    ]
    copy = ended(9, COMMITTED, 6.0, (TARGET, 6, "unknown@5@c/3"))
    assert violations(History([*kept, *copy, *last])) == []


def test_a_former_life_may_have_had_its_commit_under_way_when_it_was_fenced() -> None:
    """Its commit was requested before the next life began: it may be committed or not."""
    run = a_run()
    under_way = ended(9, COMMITTED, 6.55, ("t-1", -1, "s"))
    last = [one for one in run if not (isinstance(one, LastRead) and one.tp == "t-1")]
    assert violations(History([*last, *under_way, LastRead("t-1", [(0, "s"), (1, "r")])])) == []
    late = ended(9, COMMITTED, 6.7, ("t-1", -1, "s"))
    (line,) = violations(History([*last, *late, LastRead("t-1", [(0, "s"), (1, "r")])]))
    assert line.startswith("I6 x.1/1/9 was committed at 7.2 s")


def test_what_is_written_down_is_read_again_and_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    recorder = Recorder(path)
    for event in a_run():
        recorder.note(event)
    recorder.close()
    with path.open("a") as file:
        file.write('{"k":"full","sec')
    assert list(read([path])) == a_run()


def test_a_run_that_did_less_than_its_plan_is_no_proof() -> None:
    whole = History(a_run())
    minutes = 8 / 20_000
    assert what_is_missing(whole, len(whole.faults), minutes) == []
    (line,) = what_is_missing(whole, len(whole.faults) + 1, minutes)
    assert line == "incomplete: 1 faults of 2"
    (line,) = what_is_missing(whole, 0, 1)
    assert line == "incomplete: 8 writes acknowledged of 20,000 at least"
    unread = History(event for event in a_run() if not isinstance(event, LastRead | Dump))
    assert len(what_is_missing(unread, 0, minutes)) == 3
    plain = History(event for event in a_run() if not isinstance(event, Txn | Late | Stable))
    assert len(what_is_missing(plain, 0, 3 / 20_000)) == 3
