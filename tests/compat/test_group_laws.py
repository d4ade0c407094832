"""The judge of the churn test (groups/laws.py) condemns what it should, and only that."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tests.compat.groups.laws import broken_laws, wrong_reads
from tests.compat.groups.members import Run
from tests.compat.groups.recorder import Exchange, Unanswered

SESSION_S = 5.0
TOPIC = "t"


class Story:
    """Exchanges in the order of the calls: each is answered before the next request, 1 s later."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.now_s = 0.0

    def record(self, api: str, request: dict[str, Any], answer: dict[str, Any], *, asked: int | None = None) -> None:
        self.now_s += 1
        passed = 2 * len(self.exchanges) + 1
        self.exchanges.append(
            Exchange(api, passed if asked is None else asked, passed + 1, self.now_s, self.now_s, request, answer)
        )

    def join(self, member: str, generation: int, code: int = 0) -> None:
        answer = {"error_code": code, "generation_id": generation, "member_id": member}
        self.record("JoinGroup", {"member_id": member}, answer)

    def sync(self, member: str, generation: int, partitions: list[int], plan: list[list[int]] | None = None) -> None:
        planned = [{"assignment": assignment(one)} for one in plan or []]
        request = {"member_id": member, "generation_id": generation, "assignments": planned}
        self.record("SyncGroup", request, {"error_code": 0, "assignment": assignment(partitions)})

    def heartbeat(self, member: str, code: int) -> None:
        self.record("Heartbeat", {"member_id": member}, {"error_code": code})

    def leave(self, member: str) -> None:
        self.record("LeaveGroup", {"members": [{"member_id": member}]}, {"error_code": 0})

    def commit(self, member: str, generation: int, offset: int, code: int = 0, asked: int | None = None) -> None:
        parts = [{"partition_index": 0, "committed_offset": offset}]
        request = {"member_id": member, "generation_id_or_member_epoch": generation, "topics": [{"partitions": parts}]}
        answer = {"topics": [{"partitions": [{"partition_index": 0, "error_code": code}]}]}
        self.record("OffsetCommit", request, answer, asked=asked)

    def fetch(self, offset: int) -> None:
        parts = [{"partition_index": 0, "committed_offset": offset, "error_code": 0}]
        self.record("OffsetFetch", {}, {"groups": [{"error_code": 0, "topics": [{"partitions": parts}]}]})

    def broken(self, partitions: int = 2, unanswered: Sequence[Unanswered] = ()) -> list[str]:
        return broken_laws(self.exchanges, TOPIC, partitions, SESSION_S, unanswered)


def assignment(partitions: list[int]) -> bytes:
    head = struct.pack(">hih", 0, 1, len(TOPIC)) + TOPIC.encode()
    return head + struct.pack(f">i{len(partitions)}ii", len(partitions), *partitions, -1)


def test_an_ordinary_story_breaks_no_law() -> None:
    story = Story()
    story.fetch(-1)
    story.join("a", 1)
    story.sync("a", 1, [0, 1], plan=[[0, 1]])
    story.commit("a", 1, 5)
    story.fetch(5)
    story.join("b", 2)
    story.commit("a", 1, 6, code=22)
    story.join("a", 2)
    story.sync("a", 2, [0], plan=[[0], [1]])
    story.sync("b", 2, [1])
    story.fetch(5)
    story.leave("b")
    story.heartbeat("b", 25)
    assert story.broken() == []


def test_a_living_member_called_unknown_breaks_the_law_and_an_expired_one_does_not() -> None:
    story = Story()
    story.join("a", 1)
    story.now_s += SESSION_S - 1.5
    story.heartbeat("a", 25)
    assert [line for line in story.broken() if "UNKNOWN_MEMBER_ID" in line]
    story = Story()
    story.join("a", 1)
    story.now_s += SESSION_S
    story.heartbeat("a", 25)
    story.heartbeat("unknown", 25)
    assert story.broken() == []


def test_a_commit_of_an_old_generation_that_is_accepted_breaks_the_law() -> None:
    story = Story()
    story.join("a", 1)
    story.join("b", 2)
    story.commit("a", 1, 6)
    assert [line for line in story.broken() if "generation 1 after generation 2" in line]


def test_a_commit_that_was_on_its_way_before_the_new_generation_breaks_none() -> None:
    story = Story()
    story.join("a", 1)
    story.join("b", 2)
    story.commit("a", 1, 6, asked=3)  # Before the answer to b's join passed, which was the fourth thing to pass.
    assert story.broken() == []


def test_a_commit_whose_member_was_killed_before_its_answer_may_be_fetched_from_then_on() -> None:
    story = Story()
    story.commit("a", 1, 5)
    topics = [{"partitions": [{"partition_index": 0, "committed_offset": 6}]}]
    lost = Unanswered("OffsetCommit", len(story.exchanges) * 2 + 1, {"topics": topics})
    story.fetch(5)
    story.fetch(6)
    assert [line for line in story.broken() if "was not the last commit" in line]
    assert story.broken(unanswered=[lost]) == []
    story.fetch(7)
    assert [line for line in story.broken(unanswered=[lost]) if "7 was fetched" in line]
    too_late = lost._replace(asked=10_000)
    assert [line for line in story.broken(unanswered=[too_late]) if "6 was fetched" in line]


def test_two_owners_and_a_forgotten_partition_break_the_law() -> None:
    story = Story()
    story.sync("a", 1, [0, 1], plan=[[0, 1]])
    story.sync("b", 1, [1])
    assert [line for line in story.broken() if "to a and to b" in line]
    story = Story()
    story.sync("a", 1, [0], plan=[[0]])
    assert [line for line in story.broken() if "forgot partitions" in line]


def test_a_lost_an_old_and_an_invented_offset_break_the_law() -> None:
    for fetched in (-1, 5, 9):
        story = Story()
        story.commit("a", 1, 5)
        story.commit("a", 1, 7)
        story.fetch(fetched)
        assert [line for line in story.broken() if "not the last commit" in line], fetched


def test_while_a_commit_is_on_its_way_both_offsets_may_be_fetched() -> None:
    for fetched in (5, 7):
        story = Story()
        story.commit("a", 1, 5)
        story.fetch(fetched)
        story.commit("a", 1, 7, asked=3)  # Asked when the fetch was.
        assert story.broken() == [], fetched
        story = Story()
        story.commit("a", 1, 5)
        story.commit("a", 1, 7)
        story.fetch(fetched)
        story.exchanges[-1] = story.exchanges[-1]._replace(asked=3)  # As is all of the commit, while it waits.
        assert story.broken() == [], fetched


def test_reading_may_repeat_from_a_commit_and_nothing_else() -> None:
    partition = (TOPIC, 0)
    committed = {partition: {3}}
    right = [Run("a", partition, 0, 5, is_after_rebalance=True), Run("b", partition, 3, 8, is_after_rebalance=True)]
    assert list(wrong_reads(right, committed, {partition: 8})) == []
    assert "[8, 9] of" in next(wrong_reads(right, committed, {partition: 10}))
    elsewhere = [right[0], Run("b", partition, 4, 8, is_after_rebalance=True)]
    assert "resumed ('t', 0) at 4" in next(wrong_reads(elsewhere, committed, {partition: 8}))
    gap = [right[0], Run("a", partition, 6, 8, is_after_rebalance=False)]
    assert "went on at 6" in next(wrong_reads(gap, committed, {partition: 5}))
