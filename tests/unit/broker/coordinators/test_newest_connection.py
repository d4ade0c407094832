from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.coordinators.newest_connection import NewestConnections

KEYS = st.sampled_from("abcd")
CONNECTIONS = st.integers(0, 9)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("request"), KEYS, CONNECTIONS),
        st.tuples(st.just("init"), KEYS, CONNECTIONS),
        st.tuples(st.just("forget"), KEYS, st.just(0)),
    ),
    max_size=40,
)


class Unbounded:
    """The rule as it is stated: a dictionary that forgets nothing."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.newest: dict[str, int] = {}

    def admit(self, key: str, connection: int, *, is_init: bool) -> bool:
        if not is_init and connection < self.newest.get(key, self.floor):
            return False
        self.newest[key] = connection
        return True


def test_a_request_on_an_older_connection_than_the_newest_is_refused() -> None:
    newest = NewestConnections()
    assert newest.admit("a", 4)
    assert not newest.admit("a", 3)
    assert newest.admit("a", 4)
    assert newest.admit("a", 5)
    assert not newest.admit("a", 4)


def test_a_refused_connection_is_not_remembered() -> None:
    newest = NewestConnections()
    assert newest.admit("a", 4)
    assert not newest.admit("a", 2)
    assert not newest.admit("a", 3)


def test_keys_do_not_concern_each_other() -> None:
    newest = NewestConnections()
    assert newest.admit("a", 4)
    assert newest.admit("b", 3)
    assert len(newest) == 2


def test_the_floor_is_the_lowest_connection_of_a_key_of_which_nothing_is_remembered() -> None:
    newest = NewestConnections(floor=7)
    assert not newest.admit("a", 6)
    assert len(newest) == 0
    assert newest.admit("a", 7)


def test_a_new_epoch_begins_on_any_connection() -> None:
    newest = NewestConnections(floor=7)
    assert newest.admit("a", 9)
    assert newest.admit("a", 3, is_init=True)
    assert newest.admit("a", 3)
    assert not newest.admit("a", 2)
    assert newest.admit("b", 1, is_init=True)
    assert newest.admit("b", 1)


def test_a_forgotten_key_begins_at_the_floor() -> None:
    newest = NewestConnections(floor=2)
    assert newest.admit("a", 5)
    newest.forget("a")
    newest.forget("never seen")
    assert not newest.admit("a", 1)
    assert newest.admit("a", 2)


def test_an_eviction_takes_the_key_that_changed_longest_ago_and_raises_the_floor() -> None:
    newest = NewestConnections(capacity=2)
    assert newest.admit("a", 1)
    assert newest.admit("b", 2)
    assert newest.admit("a", 3)
    assert newest.admit("c", 4)
    assert newest.floor == 2
    assert len(newest) == 2
    assert not newest.admit("a", 2)
    assert not newest.admit("b", 1)
    assert newest.admit("b", 2)


def test_a_floor_never_falls() -> None:
    newest = NewestConnections(floor=5, capacity=1)
    assert newest.admit("a", 1, is_init=True)
    assert newest.admit("b", 6)
    assert newest.floor == 5


@given(CALLS, st.integers(1, 4), st.integers(0, 5))
def test_an_evicting_memory_admits_nothing_that_an_unbounded_one_refuses(
    calls: list[tuple[str, str, int]], capacity: int, floor: int
) -> None:
    bounded, unbounded = NewestConnections(floor, capacity), Unbounded(floor)
    for what, key, connection in calls:
        if what == "forget":
            bounded.forget(key)
            unbounded.newest.pop(key, None)
            continue
        is_admitted = unbounded.admit(key, connection, is_init=what == "init")
        if bounded.admit(key, connection, is_init=what == "init"):
            assert is_admitted
        assert len(bounded) <= capacity
        assert bounded.floor >= floor


@given(CALLS, st.integers(0, 5))
def test_a_memory_with_room_for_all_keys_is_the_unbounded_one(calls: list[tuple[str, str, int]], floor: int) -> None:
    bounded, unbounded = NewestConnections(floor, capacity=4), Unbounded(floor)
    for what, key, connection in calls:
        if what == "forget":
            bounded.forget(key)
            unbounded.newest.pop(key, None)
        else:
            is_init = what == "init"
            assert bounded.admit(key, connection, is_init=is_init) == unbounded.admit(key, connection, is_init=is_init)
    assert bounded._newest == unbounded.newest


@given(st.lists(st.tuples(KEYS, CONNECTIONS), max_size=40))
def test_a_connection_that_is_newer_than_all_is_always_admitted(calls: list[tuple[str, int]]) -> None:
    newest = NewestConnections(floor=3, capacity=2)
    for key, connection in calls:
        newest.admit(key, connection)
        assert newest.admit(key, 10)
        newest.forget(key)
