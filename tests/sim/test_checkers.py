"""Every anomaly that is planted in a history is found, and a clean history is clean."""

import dataclasses

import pytest

from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.types import TopicPartition
from tests.sim.checkers import check
from tests.sim.files import INDEX_ENTRY, TIME_ENTRY, index_findings
from tests.sim.history import Dump, History, Poll, Reset, Restart, Seen, Send

TP = TopicPartition("t", 0)


def _send(values: str, base_offset: int, at: float, **changes: object) -> Send:
    send = Send("p", TP, tuple(values), at, at + 0.5, "ok", base_offset, 7, 0, base_offset)
    return dataclasses.replace(send, **changes)


def _seen(values: str, start: int = 0) -> tuple[Seen, ...]:
    return tuple(Seen(start + index, value) for index, value in enumerate(values))


def _poll(values: str, start: int = 0, **changes: object) -> Poll:
    end = start + len(values)
    at = changes.pop("at", 5.0)
    return dataclasses.replace(Poll("c", 1, at, at, TP, start, _seen(values, start), end), **changes)


def _history(final: str = "abcdef", restarts: tuple[Restart, ...] = ()) -> History:
    history = History(attempted=set("abcdefgh"), restarts=list(restarts))
    history.sends = [_send("ab", 0, 1.0), _send("cd", 2, 2.0), _send("ef", 4, 3.0)]
    history.polls = [_poll("abc"), _poll("def", 3)]
    history.final = {TP: _poll(final, consumer="final", at=100.0)}
    history.dumps = {TP: Dump(100.0, TP, _seen(final))}
    return history


def _restart(kind: str, before: str, after: str, synced_end: int = 0, at: float = 4.0) -> Restart:
    return Restart(
        kind, at, {TP: Dump(at, TP, _seen(before), synced_end)}, {TP: Dump(at, TP, _seen(after), len(after))}
    )


def _codes(history: History) -> set[str]:
    return {finding.split()[0] for finding in check(history)}


def test_a_clean_history_is_clean():
    assert check(_history()) == []
    assert check(_history(restarts=(_restart("kill", "abcdef", "abcdef"),))) == []


def test_what_a_power_loss_takes_from_the_unsynced_end_is_no_finding():
    history = _history("abcdgh", (_restart("power", "abcdef", "abcd", synced_end=3),))
    history.polls = [_poll("abcdef", at=3.9), _poll("gh", 4, session=2, at=6.0)]
    history.sends.append(_send("gh", 4, 5.0, sequence=6))
    assert check(history) == []


def test_what_retention_takes_from_the_beginning_is_no_finding():
    history = _history("cdef", (_restart("kill", "abcdef", "abcdef"),))
    history.final = {TP: dataclasses.replace(_poll("cdef", 2, consumer="final", at=100.0), asked=2)}
    history.dumps = {TP: Dump(100.0, TP, _seen("ef", 4), base=4)}
    history.resets = [Reset("c", TP, 9.0, 0, 2)]
    assert check(history) == []


def test_a_power_loss_may_bring_back_what_retention_took_and_nothing_else_may():
    before = {TP: Dump(4.0, TP, _seen("cdef", 2), base=2)}
    after = {TP: Dump(4.0, TP, _seen("abcdef"))}
    assert check(_history(restarts=(Restart("power", 4.0, before, after),))) == []
    assert _codes(_history(restarts=(Restart("kill", 4.0, before, after),))) == {"I13"}


def _flushed_and_lost(history: History) -> None:
    history.durable_topics = frozenset({"t"})
    history.restarts = [_restart("power", "abcdefgh", "abcdef", synced_end=6, at=9.0)]
    history.sends.append(_send("gh", 6, 5.0))


def _sent_away(history: History) -> None:
    history.resets = [Reset("c", TP, 9.0, 3, 0)]


def _offline_and_acknowledged(history: History) -> None:
    history.offline = [(TP, 2.5, 8.0)]


def _past_epoch_taken(history: History) -> None:
    history.fenced_in = [(3.0, "p")]


def _producer_forgotten(history: History) -> None:
    history.restarts = [_restart("kill", "abcdef", "abcdef")]
    history.forgotten_producers = [(5.0, "t", "p")]


def _lost(history: History) -> None:
    history.sends.append(_send("g", 6, 4.0))


def _duplicate(history: History) -> None:
    history.final = {TP: _poll("abcdefa", consumer="final", at=100.0)}
    history.dumps = {}


def _other_value(history: History) -> None:
    history.polls.append(_poll("h", 2, consumer="d"))


def _ack_elsewhere(history: History) -> None:
    history.sends[0] = _send("ab", 1, 1.0)


def _sequences_swapped(history: History) -> None:
    history.sends[1] = _send("cd", 2, 2.0, sequence=9, ended=9.0)


def _sent_later_lies_earlier(history: History) -> None:
    history.sends[0] = _send("ab", 0, 50.0, producer_id=8)


def _skipped(history: History) -> None:
    history.polls = [_poll("abc"), _poll("ef", 4)]


def _read_twice(history: History) -> None:
    history.polls = [_poll("abc"), _poll("cdef", 2)]


def _not_from_where_asked(history: History) -> None:
    history.polls = [_poll("bc", 1, asked=0)]


def _beyond_watermark(history: History) -> None:
    history.polls = [_poll("abc", high_watermark=2)]


def _watermark_falls(history: History) -> None:
    history.polls = [_poll("abc", high_watermark=6), _poll("d", 3, high_watermark=5)]


def _phantom(history: History) -> None:
    history.final = {TP: _poll("abcdefx", consumer="final", at=100.0)}
    history.dumps = {}


def _files_differ(history: History) -> None:
    history.dumps = {TP: Dump(100.0, TP, _seen("abcde"))}


def _killed_and_cut(history: History) -> None:
    history.restarts = [_restart("kill", "abcdef", "abcd")]


def _rewritten(history: History) -> None:
    history.restarts = [_restart("kill", "abcdef", "abcdeg")]


def _synced_and_cut(history: History) -> None:
    history.restarts = [_restart("power", "abcdef", "abcd", synced_end=5)]


def _vanished(history: History) -> None:
    history.restarts = [Restart("kill", 4.0, {TP: Dump(4.0, TP, _seen("a"))}, {})]


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (_lost, "I1"),
        (_duplicate, "I2"),
        (_other_value, "I3"),
        (_ack_elsewhere, "I3"),
        (_files_differ, "I3"),
        (_sequences_swapped, "I4"),
        (_sent_later_lies_earlier, "I4"),
        (_skipped, "I7"),
        (_read_twice, "I7"),
        (_not_from_where_asked, "I7"),
        (_beyond_watermark, "I8"),
        (_watermark_falls, "I8"),
        (_phantom, "I11"),
        (_killed_and_cut, "I13"),
        (_rewritten, "I13"),
        (_synced_and_cut, "I13"),
        (_vanished, "I13"),
        (_flushed_and_lost, "I1"),
        (_sent_away, "I7"),
        (_offline_and_acknowledged, "I13"),
        (_past_epoch_taken, "I2"),
        (_producer_forgotten, "I2"),
    ],
)
def test_a_planted_anomaly_is_found(plant, code):
    history = _history()
    plant(history)
    assert code in _codes(history)


def test_an_index_entry_that_points_elsewhere_is_found():
    log = build_batch([Record(0, 5, None, b"a")]) + build_batch([Record(1, 9, None, b"b")], base_offset=1)
    half = len(log) // 2
    name = "/data/a/t-0/00000000000000000000"
    right = {
        f"{name}.log": log,
        f"{name}.index": INDEX_ENTRY.pack(1, half),
        f"{name}.timeindex": TIME_ENTRY.pack(5, 0) + TIME_ENTRY.pack(9, 1),
    }
    assert not list(index_findings(right))
    assert list(index_findings({**right, f"{name}.index": INDEX_ENTRY.pack(1, half + 1)}))
    assert list(index_findings({**right, f"{name}.index": INDEX_ENTRY.pack(0, half)}))
    assert list(index_findings({**right, f"{name}.timeindex": TIME_ENTRY.pack(9, 0)}))
    assert len(list(index_findings({f"{name}.log": log}))) == 2
