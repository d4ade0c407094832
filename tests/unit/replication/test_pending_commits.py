"""Pending appends complete in offset order, once, and not before they are committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import Offset
from sordini.replication.pending_commits import PendingCommit, PendingCommits


def collect_into(done: list[tuple[int, ErrorCode]]):
    def on_done(commit: PendingCommit, code: ErrorCode) -> None:
        done.append((commit.end_offset, code))

    return on_done


@given(st.lists(st.tuples(st.sampled_from(["add", "reach"]), st.integers(0, 20))))
def test_each_append_completes_once_when_its_offset_is_committed_in_offset_order(steps: list[tuple[str, int]]) -> None:
    commits, done, pending = PendingCommits(), [], []
    for kind, offset in steps:
        if kind == "add":
            commits.add(Offset(offset), collect_into(done))
            pending.append(offset)
            continue
        done.clear()
        commits.complete(Offset(offset))
        due = sorted(end for end in pending if end <= offset)
        pending = [end for end in pending if end > offset]
        assert done == [(end, ErrorCode.NONE) for end in due]
    assert len(commits) == len(pending)
    assert bool(commits) == bool(pending)


def test_a_cancelled_append_never_completes() -> None:
    commits, done = PendingCommits(), []
    commits.add(Offset(3), collect_into(done)).cancel()
    commits.add(Offset(4), collect_into(done)).cancel()
    commits.complete(Offset(3))
    commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert done == []
    assert not commits


def test_the_end_of_a_term_fails_all_pending_appends() -> None:
    commits, done = PendingCommits(), []
    for end in (3, 9):
        commits.add(Offset(end), collect_into(done))
    commits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert done == [(3, ErrorCode.NOT_LEADER_OR_FOLLOWER), (9, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert not commits
