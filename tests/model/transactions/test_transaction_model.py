"""A slice of the transactional model in every scope, four small scopes whole, and what the model must find. `make model`
runs the rest."""

from __future__ import annotations

import pytest

from tests.model.explore import explore
from tests.model.transactions import invariants, planted_bugs, state, variants
from tests.model.transactions.rules import Rules
from tests.model.transactions.scopes import GIVEN_UP, MOVED, ONE, SCOPES, TWO, Scope
from tests.model.transactions.space import Space
from tests.model.transactions.state import COMPLETE, NONE, OPEN, Line
from tests.model.transactions.trace_text import reported

SLICE = 3_000
SMALL = ONE._replace(partitions=1, delays=1)
SMALL_MOVED = MOVED._replace(has_offsets=False, delays=1)
SMALL_TWO = TWO._replace(transactions=1, has_offsets=False, delays=1)


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_no_world_near_the_start_breaks_a_law(scope: Scope) -> None:
    explored = explore(Space(Rules(scope)), SLICE)
    assert not explored.broken, reported(explored.way, explored.broken)
    assert explored.worlds >= SLICE


@pytest.mark.parametrize("scope", [SMALL, SMALL_MOVED, SMALL_TWO, GIVEN_UP], ids=lambda scope: scope.name)
def test_no_world_of_a_small_scope_breaks_a_law(scope: Scope) -> None:
    explored = explore(Space(Rules(scope)))
    assert not explored.broken, reported(explored.way, explored.broken)
    assert explored.is_whole


def test_every_client_that_goes_on_ends_its_transactions() -> None:
    """The rule closes connections; it must not keep a client from its end."""
    space = Space(Rules(SMALL))
    ends = 0
    for numbered, following in _reached(space).items():
        if not following:
            (line,) = space.world(numbered).lines
            assert _is_over(line), line
            ends += 1
    assert ends > 10


def test_in_every_world_each_client_can_still_come_to_its_end() -> None:
    space = Space(Rules(SMALL))
    reached = _reached(space)
    coming: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for numbered, following in reached.items():
        for after in following:
            coming.setdefault(after, []).append(numbered)
    left = [numbered for numbered in reached if _is_over(space.world(numbered).lines[0])]
    ending = set(left)
    while left:
        for before in coming.get(left.pop(), []):
            if before not in ending:
                ending.add(before)
                left.append(before)
    assert ending == set(reached)


def test_of_worlds_that_differ_by_the_names_of_two_producers_one_is_explored() -> None:
    space = Space(Rules(SMALL_TWO))
    reached = _reached(space)
    assert len({space.canonical(numbered) for numbered in reached}) == explore(Space(Rules(SMALL_TWO))).worlds
    assert len(reached) > explore(Space(Rules(SMALL_TWO))).worlds


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_a_variant_does_the_harm_it_is_known_for(name: str) -> None:
    explored = variants.found(name)
    assert explored.broken in variants.VARIANTS[name].watched
    story = reported(explored.way, explored.broken)
    assert story.splitlines()[1].startswith("  0. Every producer has")
    assert story.endswith(f"Broken: {explored.broken}.")
    assert len(explored.way) == explored.depth + 1


@pytest.mark.parametrize("name", planted_bugs.BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    explored = planted_bugs.found(name)
    assert explored.broken, planted_bugs.BUGS[name].what


def test_a_delayed_end_commits_the_next_transaction_without_the_rule() -> None:
    explored = variants.found("without the rule, a delayed EndTxn commits what is aborted")
    assert explored.broken == invariants.ABORTED_READ
    did = [step[1] for step, _ in explored.way[1:]]
    assert did.count("is not answered") == did.count("arrives") == 1
    assert explored.way[-1][0][2].kind == state.END


def _reached(space: Space) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """Every reachable state, with the states after it."""
    reached: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    left = [space.first()]
    while left:
        numbered = left.pop()
        if numbered not in reached:
            reached[numbered] = [after for _, after in space.steps(numbered)]
            left += reached[numbered]
    return reached


def _is_over(line: Line) -> bool:
    """Whether the client was answered about every transaction, and all of it is in the logs."""
    (client,) = line.clients
    is_complete = line.entry.state in COMPLETE.values()
    return NONE not in client.answers and is_complete and all(OPEN not in data.fates for data in line.data)
