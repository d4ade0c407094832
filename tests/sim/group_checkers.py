"""Verdicts over what happened to groups. As in `checkers`: sentences, and none for a clean run.

  G1  an offset that is read is the last that was committed, or one whose commit may still have been under way; over
      stop and kill, and over a power loss where every message is flushed;
  G2  in one generation there is one leader, and assignments are disjoint; generation ids do not fall while the group
      exists, committed ones over restarts as well;
  G3  only members of the current generation commit, and a member that left is no member;
  G4  a member with a request within its session timeout is not expelled, also over a restart, unless its generation
      was never committed; a Heartbeat that was answered NONE while the group was loaded is no such request;
  G6  a request is answered, and with a code that its sender can expect.
Of groups with members of the consumer protocol, G2 and G3 are not judged: see `consumption`.
G5, that groups settle when the faults are over, is checked while the broker runs (`groups.settle`).

An offset is a register. Of every commit and deletion is known when it began, the latest moment at which it can have
taken effect, and by when it had. Reading finds a value whose write is not certainly followed by another one. What a
restart left on the disk is read there, without the broker's help; where the power was lost, it is a write.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from sordini.protocol.types import TopicPartition
from tests.sim.consumption import check_consumption
from tests.sim.group_history import FOREVER, Commit, Expelled, Forgetting, Joined, Key, ReportedState, Synced
from tests.sim.history import History, Restart

SESSION_S = 10.0
MARGIN_S = 0.5
"""Above the delay of a link to the broker without faults."""


def check_groups(history: History) -> list[str]:
    """All findings of all checkers of groups."""
    return [
        *stale_offsets(history),
        *_duplicate_leaders(history),
        *_unheard_leaders(history),
        *_shared_parts(history),
        *_generations_going_back(history),
        *commits_of_the_past(history),
        *members_of_the_past(history),
        *expulsions(history),
        *unanswered(history),
        *check_consumption(history),
        *(f"G6 {text}" for text in history.groups.strange),
        *_missing_groups(history),
    ]


# G1.


@dataclasses.dataclass(slots=True)
class _Write:
    note: str | None
    began: float
    latest: float
    """The latest moment at which it can have taken effect."""
    known: float
    """By when it had for certain."""
    over: float = FOREVER
    """Since when it cannot be seen any more: another one was, when this one could not come behind it."""


def stale_offsets(history: History) -> Iterator[str]:
    writes = _writes(history)
    reads = sorted([*history.groups.reported, *_found_on_disk(history, writes)], key=lambda read: read.ended)
    for read in reads:
        key = read.group_id, read.partition
        of_key = writes.get(key, [_NOTHING])
        possible = [write for write in of_key if write.note == read.note and write.began <= read.ended]
        fresh = [write for write in possible if not _is_replaced(write, of_key, read.began)]
        where = f"{read.group_id} {read.partition} at {read.ended:.3f}"
        if not possible:
            yield f"G1 {where}: {read.note} was read, which was never committed"
        elif not fresh:
            yield f"G1 {where}: {read.note} was read, and there is a later one: {_last(of_key, read.began)}"
        elif len(fresh) == 1:
            _see(fresh[0], of_key, read)
        if read.note is not None and read.note.rpartition("@")[2] != str(read.offset):
            yield f"G1 {where}: {read.note} was read with the offset {read.offset}"


_NOTHING = _Write(None, 0.0, 0.0, 0.0)


def _see(seen: _Write, writes: list[_Write], read: ReportedState) -> None:
    seen.known = min(seen.known, read.ended)
    for write in writes:
        if write is not seen and write.latest <= read.began:
            write.over = min(write.over, read.ended)


def _is_replaced(write: _Write, writes: list[_Write], at: float) -> bool:
    return write.over < at or any(later.known < at and later.began > write.latest for later in writes)


def _last(writes: list[_Write], at: float) -> str | None:
    return max((write for write in writes if write.known < at), key=lambda write: write.began, default=_NOTHING).note


def _writes(history: History) -> dict[Key, list[_Write]]:
    """Every write of every offset; each begins with nothing, as they all do."""
    groups = history.groups
    keys = {
        (each.group_id, each.partition): None
        for each in itertools.chain[Commit | ReportedState](groups.commits, groups.reported)
    }
    writes = {key: [dataclasses.replace(_NOTHING)] for key in keys}
    for commit in groups.commits:
        if commit.outcome != "no":
            write = _write(history, commit.note, commit.began, commit.ended, FOREVER, is_ok=commit.outcome == "ok")
            writes[commit.group_id, commit.partition].append(write)
    for gone in groups.forgettings:
        if gone.outcome != "no":
            write = _forgetting(history, gone)
            for group_id, partition in keys:
                if gone.concerns(group_id) and (gone.partitions is None or partition in gone.partitions):
                    writes[group_id, partition].append(dataclasses.replace(write))
    for restart in history.restarts:
        if restart.kind == "power" and not groups.is_durable:
            for key, of_key in writes.items():
                note = restart.offsets.get(key, (None, -1))[0]
                of_key.append(_Write(note, restart.at, restart.back, restart.back))
    return writes


def _write(history: History, note: str | None, began: float, ended: float, latest: float, *, is_ok: bool) -> _Write:
    # What has not happened when its process ends never will.
    death = next((restart.at for restart in history.restarts if restart.at >= began), FOREVER)
    return _Write(note, began, min(ended if is_ok else latest, death), ended if is_ok else FOREVER)


def _forgetting(history: History, gone: Forgetting) -> _Write:
    write = _write(history, None, gone.began, gone.ended, gone.latest, is_ok=gone.outcome == "ok")
    is_hindered = _is_hindered(history, gone.began, gone.latest)
    if gone.group_id is None and is_hindered:
        # A clock that is ahead stays so, and a topic that is deleted: the next process finds both.
        write.latest = FOREVER
    if gone.outcome == "later" and not is_hindered:
        write.known = gone.latest
    return write


def _is_hindered(history: History, began: float, ended: float) -> bool:
    troubles = [*history.groups.pauses, *history.groups.disk_failures]
    return bool(_restarts(history, began, ended)) or any(
        trouble.began < ended and began < trouble.ended for trouble in troubles
    )


def _found_on_disk(history: History, keys: dict[Key, list[_Write]]) -> Iterator[ReportedState]:
    for restart in history.restarts:
        if restart.kind != "power" or history.groups.is_durable:
            for group_id, partition in keys:
                note, offset = restart.offsets.get((group_id, partition), (None, -1))
                yield ReportedState(group_id, partition, note, offset, restart.back, restart.back)


# G2.


def _is_same_life(history: History, earlier: Joined | Synced, later: Joined | Synced) -> bool:
    """Whether what `earlier` saw of the generations still held at `later`."""
    if any(_may_have_ended(history, earlier.group_id, earlier.began, later.ended)):
        return False
    if later.ended - earlier.began >= history.groups.empty_for_s:
        return False
    restarts = _restarts(history, earlier.began, later.ended)
    if isinstance(earlier, Joined):
        return not restarts
    return history.groups.is_durable or not any(restart.kind == "power" for restart in restarts)


def _restarts(history: History, began: float, ended: float) -> list[Restart]:
    return [restart for restart in history.restarts if began <= restart.at <= ended]


def _may_have_ended(history: History, group_id: str, began: float, ended: float) -> Iterator[bool]:
    """A group ends when it is deleted, or empty when its last offset goes."""
    for gone in history.groups.forgettings:
        if gone.outcome != "no" and gone.concerns(group_id) and gone.began <= ended:
            yield (gone.ended if gone.outcome == "ok" else gone.latest) >= began


def _duplicate_leaders(history: History) -> Iterator[str]:
    leaders: dict[tuple[str, int], list[Joined]] = {}
    for joined in history.groups.joined:
        if joined.leads and joined.group_id not in history.groups.consumer_groups:
            leaders.setdefault((joined.group_id, joined.generation_id), []).append(joined)
    for (group_id, generation_id), of_one in leaders.items():
        for earlier, later in itertools.combinations(of_one, 2):
            if earlier.identity != later.identity and _is_same_life(history, earlier, later):
                yield f"G2 {earlier.identity} and {later.identity} both lead generation {generation_id} of {group_id}"


def _unheard_leaders(history: History) -> Iterator[str]:
    """A leader that joins again requests a rebalance, also over restarts of the broker."""
    powerless = [restart.at for restart in history.restarts if restart.kind == "power"]
    for joined in history.groups.joined:
        is_lost = not history.groups.is_durable and any(at <= joined.ended for at in powerless)
        is_consumers = joined.group_id in history.groups.consumer_groups
        if joined.led == joined.generation_id and not is_lost and not is_consumers:
            yield f"G2 {joined.identity} led generation {joined.led} of {joined.group_id}, joined, and is in it still"


def _shared_parts(history: History) -> Iterator[str]:
    parts: dict[tuple[str, int], list[Synced]] = {}
    for synced in history.groups.synced:
        if synced.group_id in history.groups.consumer_groups:
            continue
        parts.setdefault((synced.group_id, synced.generation_id), []).append(synced)
        if synced.partitions is None:
            yield f"G2 {synced.identity} was given nothing in generation {synced.generation_id} of {synced.group_id}"
    for (group_id, generation_id), of_one in parts.items():
        for earlier, later in itertools.combinations(of_one, 2):
            mine, others = earlier.partitions or frozenset(), later.partitions or frozenset()
            is_wrong = mine != others if earlier.identity == later.identity else mine & others
            if is_wrong and _is_same_life(history, earlier, later):
                yield (
                    f"G2 generation {generation_id} of {group_id}: {earlier.identity} has {_text(mine)}, "
                    f"{later.identity} has {_text(others)}"
                )


def _text(partitions: frozenset[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "nothing"


def _generations_going_back(history: History) -> Iterator[str]:
    groups: dict[str, list[Joined | Synced]] = {}
    all_seen = itertools.chain[Joined | Synced](history.groups.joined, history.groups.synced)
    for seen in sorted(all_seen, key=lambda seen: seen.ended):
        if seen.group_id not in history.groups.consumer_groups:
            groups.setdefault(seen.group_id, []).append(seen)
    for group_id, of_one in groups.items():
        for later in of_one:
            for earlier in of_one:
                if (
                    earlier.ended < later.began
                    and earlier.generation_id > later.generation_id
                    and _is_same_life(history, earlier, later)
                ):
                    yield (
                        f"G2 {group_id} was in generation {earlier.generation_id} at {earlier.ended:.3f} "
                        f"and in {later.generation_id} at {later.ended:.3f}"
                    )


# G3.


def commits_of_the_past(history: History) -> Iterator[str]:
    for commit in history.groups.commits:
        is_consumers = commit.group_id in history.groups.consumer_groups
        if commit.outcome == "ok" and commit.generation_id >= 0 and not is_consumers:
            reason = _why_not(history, commit)
            if reason is not None:
                yield (
                    f"G3 {commit.note} of {commit.member_id} in generation {commit.generation_id} of {commit.group_id} "
                    f"was taken at {commit.ended:.3f}, and {reason}"
                )


def _why_not(history: History, commit: Commit) -> str | None:
    groups, at = history.groups, (commit.began, commit.ended)
    for seen in itertools.chain[Joined | Synced](groups.joined, groups.synced):
        if seen.group_id == commit.group_id and seen.generation_id > commit.generation_id and seen.ended < commit.began:
            now = seen._replace(began=at[0], ended=at[1])
            if _is_same_life(history, seen, now):
                return f"generation {seen.generation_id} had begun"
    for left in groups.left:
        is_before = left.member_id == commit.member_id and left.ended < commit.began
        # The departure is committed with the next generation only.
        if is_before and not _restarts(history, left.ended, commit.ended):
            return f"it had left at {left.ended:.3f}"
    return None


def members_of_the_past(history: History) -> Iterator[str]:
    for listed in history.groups.listed:
        for left in history.groups.left:
            is_there = left.group_id == listed.group_id and left.member_id in listed.member_ids
            if is_there and left.ended < listed.began and not _restarts(history, left.ended, listed.ended):
                yield (
                    f"G3 {left.member_id} had left {left.group_id} at {left.ended:.3f}, "
                    f"and is a member at {listed.ended:.3f}"
                )


# G4.


def expulsions(history: History) -> Iterator[str]:
    for expelled in history.groups.expelled:
        if not _is_deserved(history, expelled):
            yield (
                f"G4 {expelled.member_id} of {expelled.group_id} was last answered at {expelled.last_contact:.3f}, sent again at "
                f"{expelled.spoke:.3f}, and got UNKNOWN_MEMBER_ID at {expelled.ended:.3f}"
            )


def _is_deserved(history: History, expelled: Expelled) -> bool:
    deaths = _restarts(history, expelled.last_contact, expelled.ended)
    if any(death.kind == "power" for death in deaths) and not history.groups.is_durable:
        return True
    if deaths and expelled.written >= deaths[0].at:
        return True
    is_consumers = expelled.group_id in history.groups.consumer_groups
    if is_consumers and not history.groups.is_durable and _lost_power(history, expelled.written, expelled.ended):
        return True  # What it gave up before is revoked once more, and it reports that once only: its time runs out.
    if any(_may_have_ended(history, expelled.group_id, expelled.last_contact, expelled.ended)):
        return True  # A member id is removed with its group.
    # Every process starts all sessions again.
    began = [expelled.last_contact, *(death.back for death in deaths)]
    ended = [*(death.at for death in deaths), expelled.spoke]
    return not _was_kept_from_speaking(history, expelled, deaths) and any(
        end - begin >= SESSION_S - MARGIN_S for begin, end in zip(began, ended, strict=True)
    )


def _lost_power(history: History, began: float, ended: float) -> bool:
    return any(restart.kind == "power" and began <= restart.at <= ended for restart in history.restarts)


def _was_kept_from_speaking(history: History, expelled: Expelled, deaths: list[Restart]) -> bool:
    """Whether its session ended while the broker was down, and it sent a request as soon as it could.

    A late broker extends sessions by its delay; at least that much is required here.
    """
    session_ends = max([expelled.last_contact, *(death.back for death in deaths)]) + SESSION_S
    return expelled.longest_silence_s < SESSION_S - MARGIN_S and any(
        pause.began < session_ends - MARGIN_S
        and session_ends < pause.ended - 2 * MARGIN_S
        and expelled.spoke < pause.ended + MARGIN_S
        for pause in history.groups.pauses
    )


# G6.


def unanswered(history: History) -> Iterator[str]:
    for waited in history.groups.unanswered:
        is_excused = _restarts(history, waited.began, waited.ended) or any(
            pause.began < waited.ended and waited.began < pause.ended for pause in history.groups.pauses
        )
        if not is_excused:
            yield f"G6 {waited.what} of {waited.group_id} has no answer from {waited.began:.3f} to {waited.ended:.3f}"


def _missing_groups(history: History) -> Iterator[str]:
    """A group with a member is not unknown, unless a power loss took it or it has ended since that member was in it."""
    groups = history.groups
    for missing in groups.missing:
        is_lost = not groups.is_durable and any(
            restart.kind == "power" and restart.at <= missing.ended for restart in history.restarts
        )
        if not is_lost and not any(_may_have_ended(history, missing.group_id, 0.0, missing.ended)):
            yield f"G6 {missing.who} got GROUP_ID_NOT_FOUND of {missing.group_id} at {missing.ended:.3f}"
