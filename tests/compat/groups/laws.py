"""What must hold of every conversation about one group, whatever its members do; broken laws as sentences.

The judge sees only what the recorder saw: requests before the broker had them, answers after it gave them. So
each law is put such that no delay on the way can make a right broker look wrong:

- **Nobody alive is unknown.** UNKNOWN_MEMBER_ID goes only to a member that left, or that the broker has not
  sent no request for its session timeout, or whose id no broker has assigned.
- **Only the current generation commits.** After any member got generation n + 1, a commit that arrives
  with generation n is refused.
- **One owner.** In a generation each partition is given to one member at most, and to one at least.
- **What was committed is what is fetched**: the offset of a commit that may have been the last one before. A commit
  whose member was killed before its answer came past may have counted, at any time since.
"""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.compat.groups.members import Partition, Run
from tests.compat.groups.recorder import Exchange, Unanswered

NONE = 0
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79
NEVER = sys.maxsize
_TO_MEMBERS = {NONE, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED}


class Commit(NamedTuple):
    """An accepted offset of a partition."""

    asked: int
    answered: int
    offset: int


def broken_laws(
    exchanges: list[Exchange],
    topic: str,
    partitions: int,
    session_timeout_s: float,
    unanswered: Sequence[Unanswered] = (),
) -> list[str]:
    """Empty when all is well. The group consumes that one topic; the laws speak of all its partitions."""
    return [
        *unknown_members(exchanges, session_timeout_s),
        *stale_commits(exchanges),
        *shared_partitions(exchanges, {(topic, number) for number in range(partitions)}),
        *wrong_fetches(exchanges, unanswered),
    ]


def unknown_members(exchanges: list[Exchange], session_timeout_s: float) -> Iterator[str]:
    answered_at_s: dict[str, float] = {}
    left_at: dict[str, int] = {}
    for one in exchanges:
        for member in _leaving(one):
            left_at[member] = min(one.asked, left_at.get(member, one.asked))
    for one in exchanges:
        for member, code in _answered_members(one):
            if code in _TO_MEMBERS:
                # An answer to a waiting JoinGroup or SyncGroup restarts the session timeout, as a heartbeat does.
                waited = one.api in {"JoinGroup", "SyncGroup"}
                at_s = one.answered_at_s if waited else one.asked_at_s
                answered_at_s[member] = max(at_s, answered_at_s.get(member, 0))
            elif (
                code != UNKNOWN_MEMBER_ID
                or left_at.get(member, one.answered) < one.answered
                or member not in answered_at_s
            ):
                continue
            elif (silent_s := one.asked_at_s - answered_at_s[member]) < session_timeout_s:
                yield f"{one.api} of {member} was answered UNKNOWN_MEMBER_ID {silent_s:.2f} s after its last request"


def stale_commits(exchanges: list[Exchange]) -> Iterator[str]:
    newest: list[tuple[int, int]] = []  # (passed, generation), both rising.
    for one in exchanges:
        if one.api == "JoinGroup" and one.answer["error_code"] == NONE:
            generation = one.answer["generation_id"]
            if not newest or generation > newest[-1][1]:
                newest.append((one.answered, generation))
    for one in exchanges:
        if one.api != "OffsetCommit" or not any(code == NONE for _, code, _ in _committed(one)):
            continue
        used = one.request["generation_id_or_member_epoch"]
        known = max((generation for passed, generation in newest if passed < one.asked), default=-1)
        if used < known:
            yield f"{one.request['member_id']} committed in generation {used} after generation {known} was sent"


def shared_partitions(exchanges: list[Exchange], expected: set[Partition]) -> Iterator[str]:
    given: dict[tuple[int, Partition], str] = {}
    for one in exchanges:
        if one.api != "SyncGroup":
            continue
        generation, member = one.request["generation_id"], one.request["member_id"]
        if one.answer["error_code"] == NONE:
            for partition in assigned_partitions(one.answer["assignment"]):
                owner = given.setdefault((generation, partition), member)
                if owner != member:
                    yield f"generation {generation} gave {partition} to {owner} and to {member}"
            planned = [assigned_partitions(plan["assignment"]) for plan in one.request["assignments"]]
            if planned and {partition for plan in planned for partition in plan} != expected:
                yield f"the leader of generation {generation} forgot partitions: {planned}"


def wrong_fetches(exchanges: list[Exchange], unanswered: Sequence[Unanswered]) -> Iterator[str]:
    commits: dict[int, list[Commit]] = defaultdict(list)
    for lost in unanswered:
        for partition, offset in _asked_offsets(lost):
            commits[partition].append(Commit(lost.asked, NEVER, offset))
    for one in exchanges:
        if one.api == "OffsetCommit":
            for partition, code, offset in _committed(one):
                if code == NONE:
                    commits[partition].append(Commit(one.asked, one.answered, offset))
    for one in exchanges:
        if one.api == "OffsetFetch":
            for partition, offset in _fetched(one):
                if offset not in possible_offsets(commits[partition], one):
                    yield f"partition {partition}: {offset} was fetched, which was not the last commit: {one}"


def possible_offsets(commits: list[Commit], fetch: Exchange) -> set[int]:
    """Offsets that a right broker may answer; -1 as long as no commit was answered before the question."""
    before = [one for one in commits if one.answered < fetch.asked]
    # A commit is certainly outdated when another began after its answer and ended before the question.
    newest_start = max((one.asked for one in before), default=-1)
    possible = {one.offset for one in commits if one.asked < fetch.answered and one.answered > newest_start}
    return possible if before else possible | {-1}


def wrong_reads(runs: Iterable[Run], committed: dict[Partition, set[int]], ends: dict[Partition, int]) -> Iterator[str]:
    """At least once: nothing is left out, and reading resumes only at a committed offset (or at 0)."""
    read: dict[Partition, set[int]] = defaultdict(set)
    last: dict[tuple[str, Partition], int] = {}
    for one in runs:
        if one.is_after_rebalance:
            if one.first != 0 and one.first not in committed[one.partition]:
                yield f"{one.member} resumed {one.partition} at {one.first}, which was not committed"
        elif one.first != last[one.member, one.partition]:
            yield f"{one.member} left {one.partition} at {last[one.member, one.partition]}, went on at {one.first}"
        last[one.member, one.partition] = one.end
        read[one.partition].update(range(one.first, one.end))
    for partition, end in ends.items():
        if lost := set(range(end)) - read[partition]:
            yield f"{sorted(lost)[:20]} of {partition} were not read"


def accepted_offsets(
    exchanges: list[Exchange], topic: str, unanswered: Sequence[Unanswered] = ()
) -> dict[Partition, set[int]]:
    """Every offset that was ever committed with success, or may have been."""
    found: dict[Partition, set[int]] = defaultdict(set)
    for lost in unanswered:
        for partition, offset in _asked_offsets(lost):
            found[topic, partition].add(offset)
    for one in exchanges:
        if one.api == "OffsetCommit":
            for partition, code, offset in _committed(one):
                if code == NONE:
                    found[topic, partition].add(offset)
    return found


def assigned_partitions(assignment: bytes) -> list[Partition]:
    """Out of a ConsumerProtocolAssignment: int16 version, then [topic, [int32 partition]]; empty for no bytes."""
    if not assignment:
        return []
    (topics,) = struct.unpack_from(">i", assignment, 2)
    position, found = 6, []
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", assignment, position)
        topic = assignment[position + 2 : position + 2 + size].decode()
        (count,) = struct.unpack_from(">i", assignment, position + 2 + size)
        position += 6 + size
        found += [(topic, number) for number in struct.unpack_from(f">{count}i", assignment, position)]
        position += 4 * count
    return found


def _leaving(one: Exchange) -> list[str]:
    if one.api != "LeaveGroup":
        return []
    if "members" in one.request:
        return [str(member["member_id"]) for member in one.request["members"]]
    return [str(one.request["member_id"])]


def _answered_members(one: Exchange) -> Iterator[tuple[str, int]]:
    """(member, error code) of an answer that says whether a member is known."""
    if one.api == "JoinGroup":
        code = one.answer["error_code"]
        # The first join of a member brings its id with the answer.
        yield (str(one.request["member_id"] or one.answer["member_id"]), code)
    elif one.api in {"Heartbeat", "SyncGroup"}:
        yield (str(one.request["member_id"]), one.answer["error_code"])
    elif one.api == "OffsetCommit" and one.request["member_id"]:
        for _, code, _ in _committed(one):
            yield (str(one.request["member_id"]), code)


def _committed(one: Exchange) -> Iterator[tuple[int, int, int]]:
    """(partition, error code, offset) of each partition of a commit."""
    for asked, answered in zip(one.request["topics"], one.answer["topics"], strict=True):
        codes = {part["partition_index"]: part["error_code"] for part in answered["partitions"]}
        for part in asked["partitions"]:
            yield part["partition_index"], codes[part["partition_index"]], part["committed_offset"]


def _asked_offsets(lost: Unanswered) -> Iterator[tuple[int, int]]:
    """(partition, offset) of each partition of a commit that was not answered."""
    if lost.api == "OffsetCommit":
        for topic in lost.request["topics"]:
            for part in topic["partitions"]:
                yield part["partition_index"], part["committed_offset"]


def _fetched(one: Exchange) -> Iterator[tuple[int, int]]:
    """(partition, committed offset) of each partition fetched without an error."""
    for group in one.answer.get("groups") or [one.answer]:
        if group.get("error_code", NONE) == NONE:
            for topic in group["topics"]:
                for part in topic["partitions"]:
                    if part["error_code"] == NONE:
                        yield part["partition_index"], part["committed_offset"]
