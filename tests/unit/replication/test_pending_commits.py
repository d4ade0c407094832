"""Appends that wait for all in-sync replicas are answered in order, once, and not before their time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import Offset
from sordini.replication.pending_commits import PendingCommit, PendingCommits


def collecting(told: list[tuple[int, ErrorCode]]):
    def ended(commit: PendingCommit, code: ErrorCode) -> None:
        told.append((commit.end_offset, code))

    return ended


@given(st.lists(st.tuples(st.sampled_from(["add", "reach"]), st.integers(0, 20))))
def test_each_is_told_once_as_soon_as_its_offset_is_reached_and_lower_ones_first(steps: list[tuple[str, int]]) -> None:
    commits, told, waiting = PendingCommits(), [], []
    for kind, offset in steps:
        if kind == "add":
            commits.add(Offset(offset), collecting(told))
            waiting.append(offset)
            continue
        told.clear()
        commits.reached(Offset(offset))
        due = sorted(end for end in waiting if end <= offset)
        waiting = [end for end in waiting if end > offset]
        assert told == [(end, ErrorCode.NONE) for end in due]
    assert len(commits) == len(waiting)
    assert bool(commits) == bool(waiting)


def test_who_withdrew_hears_nothing() -> None:
    commits, told = PendingCommits(), []
    commits.add(Offset(3), collecting(told)).withdraw()
    commits.add(Offset(4), collecting(told)).withdraw()
    commits.reached(Offset(3))
    commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told == []
    assert not commits


def test_a_term_that_ends_tells_all_who_wait_that_nobody_knows() -> None:
    commits, told = PendingCommits(), []
    for end in (3, 9):
        commits.add(Offset(end), collecting(told))
    commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told == [(3, ErrorCode.NOT_LEADER_OR_FOLLOWER), (9, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert not commits
