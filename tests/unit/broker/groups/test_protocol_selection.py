"""How members agree on a protocol."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from sordini.broker.groups.machine import protocol_selection
from sordini.broker.groups.machine.state import Member, Protocol

LISTS = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5), min_size=1, max_size=6)


def members_of(lists: list[list[str]]) -> list[Member]:
    return [
        Member(f"m{number}", None, "c", "/h", 1, 1, tuple(Protocol(name, b"") for name in names))
        for number, names in enumerate(lists)
    ]


def support_of(members: list[Member]) -> dict[str, int]:
    support: dict[str, int] = {}
    for member in members:
        protocol_selection.count(support, member.protocols, 1)
    return support


def elected(*lists: str) -> str:
    members = members_of([list(names) for names in lists])
    return protocol_selection.select(members, support_of(members))


def test_the_most_preferred_protocol_is_selected() -> None:
    assert elected("ab", "ba", "ba") == "b"
    assert elected("ab", "ab", "ba") == "a"


def test_a_protocol_that_not_all_members_support_has_no_votes() -> None:
    assert elected("cab", "cab", "ba") == "a"
    assert elected("cb", "ab") == "b"


def test_among_equals_the_first_with_a_vote_is_selected() -> None:
    assert elected("ab", "ba") == "a"
    assert elected("ba", "ab") == "b"


@given(LISTS)
def test_the_selected_protocol_is_common_to_all_and_has_the_most_votes(lists: list[list[str]]) -> None:
    common = set.intersection(*(set(names) for names in lists))
    assume(common)
    members = members_of(lists)
    votes = [next(name for name in names if name in common) for names in lists]
    winner = protocol_selection.select(members, support_of(members))
    assert winner in common
    assert votes.count(winner) == max(votes.count(name) for name in votes)


@given(LISTS)
def test_support_is_the_number_of_current_members(lists: list[list[str]]) -> None:
    members = members_of(lists)
    support = support_of(members)
    assert support == {name: count for name in "abcd" if (count := sum(name in names for names in lists))}
    assert protocol_selection.has_common(support, len(members), members[0].protocols) == bool(
        set.intersection(*(set(names) for names in lists))
    )
    for member in members:
        protocol_selection.count(support, member.protocols, -1)
    assert support == {}
