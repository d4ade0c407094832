"""What members of consumer groups (KIP-848) did with their partitions, and verdicts over it. Part of the `GroupHistory`.

  K1  of two members that had a partition one after the other, no commit of the earlier is accepted once a commit of the
      later was; members of the classic protocol in the same group included;
  K2  committed offsets never go backward: neither the next commit nor what is read is below an accepted commit;
  K3  every record below a committed offset was consumed by some member of the group: each at least once.
  K5, K6  static members keep their partitions and instance ids: see `static_members`.
That no member is stuck for longer than two session timeouts (K4) is checked while the broker runs (`groups.settle`).

A power loss may take committed offsets, and a deletion or expiry does: K1 and K2 compare commits with none in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sordini.protocol.types import TopicPartition
from tests.sim.group_history import Commit, Tenure
from tests.sim.history import History
from tests.sim.static_members import check_static_members


def check_consumption(history: History) -> list[str]:
    """All findings of all checkers of consumer groups."""
    groups = history.groups

    def is_interrupted(group_id: str, began: float, ended: float) -> bool:
        return _is_interrupted(history, group_id, began, ended)

    static = check_static_members(groups.static, groups.tenures, groups.commits, groups.session_s, is_interrupted)
    return [*check_offsets(history), *static]


def check_offsets(history: History) -> list[str]:
    """Those of K1 to K3."""
    return [*_two_owners(history), *_going_back(history), *_read_below_a_commit(history), *_skipped(history)]


def _accepted(history: History) -> dict[tuple[str, TopicPartition], list[Commit]]:
    """Of consumer groups, in the order of time."""
    commits: dict[tuple[str, TopicPartition], list[Commit]] = {}
    for commit in sorted(history.groups.commits, key=lambda commit: commit.ended):
        if commit.outcome == "ok" and commit.group_id in history.groups.consumer_groups:
            commits.setdefault((commit.group_id, commit.partition), []).append(commit)
    return commits


def _two_owners(history: History) -> Iterator[str]:
    for (group_id, partition), commits in _accepted(history).items():
        owned = [(commit, _tenure_of(history, commit)) for commit in commits]
        for (earlier, later_owner), (later, earlier_owner) in itertools.combinations(owned, 2):
            if later_owner is None or earlier_owner is None or later_owner.member_id == earlier_owner.member_id:
                continue
            is_wrong = earlier_owner.began < later_owner.began and earlier.ended < later.began
            if is_wrong and not _is_interrupted(history, group_id, later_owner.began, later.ended):
                yield (
                    f"K1 {partition} of {group_id}: {later_owner.member_id} has it since {later_owner.began:.3f} and "
                    f"committed at {earlier.ended:.3f}, and {later.note} of {later.member_id} was taken at {later.ended:.3f}"
                )


def _tenure_of(history: History, commit: Commit) -> Tenure | None:
    """Since when the member had the partition that it commits."""
    found = [
        tenure
        for tenure in history.groups.tenures
        if (tenure.group_id, tenure.partition, tenure.member_id)
        == (commit.group_id, commit.partition, commit.member_id)
        and tenure.began <= commit.began
    ]
    return max(found, key=lambda tenure: tenure.began, default=None)


def _going_back(history: History) -> Iterator[str]:
    for (group_id, partition), commits in _accepted(history).items():
        if group_id not in history.groups.reading_groups:
            continue
        for earlier, later in itertools.pairwise(commits):
            is_back = _offset(later) < _offset(earlier) and earlier.ended < later.began
            is_excused = _read_a_stale_offset(history, later)
            if is_back and not is_excused and not _is_interrupted(history, group_id, earlier.began, later.ended):
                yield f"K2 {partition} of {group_id}: {earlier.note}, and then {later.note} at {later.ended:.3f}"


def _read_a_stale_offset(history: History, commit: Commit) -> bool:
    """Whether the member may have gone on from an offset of a superseded coordinator that could not check its epoch."""
    return any(
        (read.group_id, read.partition, read.member_id) == (commit.group_id, commit.partition, commit.member_id)
        and not read.is_checked
        and read.began < commit.began
        for read in history.groups.stale
    )


def _read_below_a_commit(history: History) -> Iterator[str]:
    """A member that is given a partition goes on from there, and has often read on before it commits."""
    accepted = _accepted(history)
    for read in history.groups.reported:
        if read.group_id not in history.groups.reading_groups:
            continue
        before = [each for each in accepted.get((read.group_id, read.partition), ()) if each.ended < read.began]
        if before and read.offset < _offset(before[-1]):
            last = before[-1]
            if not _is_interrupted(history, read.group_id, last.began, read.ended):
                yield (
                    f"K2 {read.partition} of {read.group_id}: {last.note} at {last.ended:.3f}, "
                    f"and {read.offset} was read at {read.ended:.3f}"
                )


def _skipped(history: History) -> Iterator[str]:
    if any(restart.kind == "power" for restart in history.restarts):
        return  # Records that were not flushed may have been consumed, and others have their offsets.
    for (group_id, partition), commits in _accepted(history).items():
        if group_id in history.groups.reading_groups:
            consumed = history.groups.consumed.get((group_id, partition), set())
            end = max(map(_offset, commits))
            missing = sorted(set(range(end)) - consumed)
            if missing:
                yield f"K3 {partition} of {group_id}: {missing[:5]} of {end} committed records were never consumed"


def _offset(commit: Commit) -> int:
    return int(commit.note.rpartition("@")[2])


def _is_interrupted(history: History, group_id: str, began: float, ended: float) -> bool:
    """Whether offsets or records of the group may have gone meanwhile."""
    groups = history.groups
    is_lost = not groups.is_durable and any(
        restart.kind == "power" and began <= restart.back and restart.at <= ended for restart in history.restarts
    )
    return is_lost or any(
        gone.outcome != "no" and gone.concerns(group_id) and gone.began <= ended and began <= gone.latest
        for gone in groups.forgettings
        if gone.partitions is None
    )
