"""Values of transactions without a marker, compared with a naive reading of the log."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.coordinators.open_transactions import OpenTransactions

KEYS = "abc"
PRODUCERS = (1, 2, 3)


class Plain(NamedTuple):
    """A record outside of transactions; None is a tombstone."""

    key: str
    value: int | None


class Written(NamedTuple):
    producer_id: int
    key: str


class Marker(NamedTuple):
    producer_id: int
    commit: bool


Event = Plain | Written | Marker
EVENTS = st.lists(
    st.builds(Plain, st.sampled_from(KEYS), st.just(0) | st.none())
    | st.builds(Written, st.sampled_from(PRODUCERS), st.sampled_from(KEYS))
    | st.builds(Marker, st.sampled_from(PRODUCERS), st.booleans()),
    max_size=25,
)


def naive(log: list[Event]) -> dict[str, int]:
    """By each key the offset of its latest record that counts: a transaction's from its commit marker on."""
    counted: dict[int, tuple[str, int | None]] = {}
    open_records: dict[int, dict[int, str]] = {}
    for offset, event in enumerate(log):
        match event:
            case Plain(key, value):
                counted[offset] = key, None if value is None else offset
                if value is None:
                    for records in open_records.values():
                        for number in [number for number, name in records.items() if name == key]:
                            del records[number]
            case Written(producer_id, key):
                open_records.setdefault(producer_id, {})[offset] = key
            case Marker(producer_id, commit):
                for number, key in open_records.pop(producer_id, {}).items():
                    if commit:
                        counted[number] = key, number
    latest: dict[str, int] = {}
    for _, (key, number) in sorted(counted.items()):
        latest.pop(key, None)
        if number is not None:
            latest[key] = number
    return latest


def folded(log: list[Event]) -> tuple[dict[str, int], OpenTransactions[str, int]]:
    latest: dict[str, int] = {}
    opened: OpenTransactions[str, int] = OpenTransactions(lambda key, value: 10 + (value is not None))
    for offset, event in enumerate(log):
        match event:
            case Plain(key, None):
                latest.pop(key, None)
                opened.delete(key, offset)
            case Plain(key, _):
                latest[key] = offset
                opened.supersede(key, offset)
            case Written(producer_id, key):
                opened.add(producer_id, key, offset, offset)
            case Marker(producer_id, commit):
                latest.update(opened.end(producer_id, commit=commit))
    return latest, opened


@given(EVENTS)
def test_the_record_with_the_higher_offset_wins_whichever_marker_comes_first(log: list[Event]) -> None:
    assert folded(log)[0] == naive(log)


@given(EVENTS)
def test_a_key_is_unstable_exactly_while_a_transaction_that_wrote_it_is_open(log: list[Event]) -> None:
    unstable: dict[int, set[str]] = {}
    for event in log:
        match event:
            case Plain(key, None):
                for keys in unstable.values():
                    keys.discard(key)
            case Written(producer_id, key):
                unstable.setdefault(producer_id, set()).add(key)
            case Marker(producer_id, _):
                unstable.pop(producer_id, None)
    _, opened = folded(log)
    assert {key for key in KEYS if key in opened} == set(opened.keys()) == set().union(*unstable.values())
    assert set(opened.producers()) == {producer_id for producer_id, keys in unstable.items() if keys}
    assert bool(opened) == any(unstable.values())


@given(EVENTS)
def test_what_is_held_is_the_sum_of_all_values(log: list[Event]) -> None:
    _, opened = folded(log)
    assert opened.held_bytes == sum(10 + (value is not None) for *_, value in opened.entries())


def test_what_an_abort_ends_replaces_nothing() -> None:
    opened: OpenTransactions[str, int] = OpenTransactions()
    opened.add(1, "a", 5, 1)
    assert opened.end(1, commit=False) == {}
    assert not opened
    assert opened.end(1, commit=True) == {}


def test_a_value_that_a_later_one_superseded_stays_unstable_until_its_marker() -> None:
    opened: OpenTransactions[str, int] = OpenTransactions()
    opened.add(1, "a", 5, 1)
    opened.supersede("a", 2)
    assert "a" in opened
    assert opened.end(1, commit=True) == {}
    assert "a" not in opened


def test_a_commit_that_was_appended_earlier_supersedes_nothing() -> None:
    """Its record may be committed after the transaction's is in the log."""
    opened: OpenTransactions[str, int] = OpenTransactions()
    opened.add(1, "a", 5, 2)
    opened.supersede("a", 1)
    opened.delete("a", 1)
    assert opened.end(1, commit=True) == {"a": 5}
