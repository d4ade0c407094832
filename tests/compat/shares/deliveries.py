"""Whether a share group kept its promises, by what workers saw, what was killed, and its dead letters. Pure.

    every record is done: an acceptance was answered, or it is a dead letter
    none is done twice: behind the answer to an acceptance it is neither delivered nor accepted again
    none is held twice: while a worker surely holds a record, no other gets it
    no delivery is beyond the limit
    dead letters are those that were rejected or delivered too often, and none that was accepted

A lock is certain from the answer that gave it until the worker acknowledges, is killed, or the lock may have ended; a
leader that is killed, or moves, forgets the locks, and what was not answered may have been done or not. An acceptance or
rejection is certain while the lock is: what is said later of a record that another worker has done below the start
offset is answered with no error, and changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tests.support.share_group import ACCEPT, REJECT, RELEASE, RENEW

SHOWN_MAX: Final = 10
Span = tuple[float, float]
"""From and until when."""


class Hold(NamedTuple):
    """A worker certainly has a record from `since` on, and may have it until `until`."""

    member: str
    sent: float
    since: float
    until: float
    deliveries: int


class Acceptance(NamedTuple):
    """One that was answered with no error."""

    at: float
    """When it was answered."""
    is_certain: bool
    """Whether the worker's lock was surely in force."""


class Seen:
    """What all workers wrote down, by record."""

    def __init__(self) -> None:
        self.holds: dict[int, list[Hold]] = {}
        self.accepted: dict[int, list[Acceptance]] = {}
        self.rejections: dict[int, bool] = {}
        """Records that were rejected; whether one of these certainly had an effect."""
        self.attempted: set[int] = set()
        """Records of which an acceptance was sent, answered or not."""
        self.deliveries: Counter[int] = Counter()
        """The highest delivery count."""
        self.codes: Counter[int] = Counter()
        self.failures: Counter[str] = Counter()

    def read(self, lines: Iterable[str], ended: float) -> None:
        """One worker's lines, and when it was ended."""
        open_holds: dict[tuple[str, int], tuple[float, float, float, int]] = {}
        certain_until: dict[tuple[str, int], float] = {}
        """By when an answer is certainly about a record that the worker holds."""
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # It was killed in the middle of it.
            match row["what"]:
                case "acquired":
                    for offset in range(row["first"], row["last"] + 1):
                        lock_end = row["sent"] + row["lock"]
                        open_holds[row["member"], offset] = (row["sent"], row["at"], lock_end, row["deliveries"])
                        certain_until[row["member"], offset] = lock_end
                        self.deliveries[offset] = max(self.deliveries[offset], row["deliveries"])
                case "says":
                    self._says(row, open_holds)
                case "said":
                    self._said(row, certain_until)
                case "failed":
                    self.failures[row["why"].partition(":")[0]] += 1
                    # Its session may have been over for some time: nothing that it held is certain.
                    for (member, offset), (sent, since, _, deliveries) in open_holds.items():
                        self._hold(offset, Hold(member, sent, since, since, deliveries))
                    open_holds.clear()
        for (member, offset), (sent, since, lock_end, deliveries) in open_holds.items():
            self._hold(offset, Hold(member, sent, since, min(lock_end, ended), deliveries))

    def _hold(self, offset: int, hold: Hold) -> None:
        self.holds.setdefault(offset, []).append(hold)

    def _says(self, row: Mapping[str, Any], open_holds: dict[tuple[str, int], tuple[float, float, float, int]]) -> None:
        for offset in range(row["first"], row["last"] + 1):
            if row["kind"] == RENEW:
                continue
            held = open_holds.pop((row["member"], offset), None)
            if held is not None:
                sent, since, lock_end, deliveries = held
                self._hold(offset, Hold(row["member"], sent, since, min(lock_end, row["sent"]), deliveries))
            if row["kind"] == ACCEPT:
                self.attempted.add(offset)
            if row["kind"] == REJECT:
                self.rejections.setdefault(offset, False)

    def _said(self, row: Mapping[str, Any], certain_until: Mapping[tuple[str, int], float]) -> None:
        self.codes[row["code"]] += 1
        for offset in range(row["first"], row["last"] + 1):
            if row["code"] != 0 or row["kind"] in (RENEW, RELEASE):
                continue
            is_certain = row["at"] <= certain_until.get((row["member"], offset), 0.0)
            if row["kind"] == ACCEPT:
                self.accepted.setdefault(offset, []).append(Acceptance(row["at"], is_certain))
            if row["kind"] == REJECT and is_certain:
                self.rejections[offset] = True


def broken_promises(
    seen: Seen, end: int, limit: int, moves: Sequence[Span], dead_letters: Counter[int] | None
) -> list[str]:
    """What is wrong, in words; nothing if all was kept. Records are those below `end`.

    `moves`: when the leader was killed, or moved, until another one led; their locks are forgotten.
    `dead_letters` counts the dead letters of each record; None where the group keeps none.
    """
    found: list[str] = []
    dead = dead_letters or Counter()
    for offset in range(end):
        accepted = seen.accepted.get(offset, [])
        is_given_up = offset in dead or (dead_letters is None and seen.deliveries[offset] >= limit)
        may_be_done = offset in seen.attempted or seen.rejections.get(offset) is not None
        if not accepted and not is_given_up and not may_be_done:
            found.append(f"record {offset} was never done")
        found += _done_twice(offset, accepted, seen.holds.get(offset, ()))
        found += _held_twice(offset, seen.holds.get(offset, ()), moves)
        if seen.deliveries[offset] > limit:
            found.append(f"record {offset} was delivered {seen.deliveries[offset]} times, of {limit}")
    if dead_letters is not None:
        found += _wrong_letters(seen, end, limit, dead)
    return found


def _done_twice(offset: int, accepted: Sequence[Acceptance], holds: Iterable[Hold]) -> list[str]:
    if not accepted:
        return []
    first_answer = min(one.at for one in accepted)
    found = [
        f"record {offset} was delivered to {hold.member} behind the answer to its acceptance"
        for hold in holds
        if hold.sent > first_answer
    ]
    times = sum(one.is_certain for one in accepted)
    if times > 1:
        found.append(f"record {offset} was accepted {times} times")
    return found


def _held_twice(offset: int, holds: Sequence[Hold], moves: Sequence[Span]) -> list[str]:
    ordered = sorted(holds, key=lambda hold: hold.since)
    return [
        f"record {offset} was delivered to {other.member} while {hold.member} held it"
        for hold, other in pairwise(ordered)
        if hold.since < other.sent
        and other.since < hold.until
        and not any(began <= other.since and hold.sent <= ended for began, ended in moves)
    ]


def _wrong_letters(seen: Seen, end: int, limit: int, dead: Counter[int]) -> list[str]:
    found = []
    for offset in range(end):
        is_rejected, is_exceeded = offset in seen.rejections, seen.deliveries[offset] >= limit
        if offset in dead and not is_rejected and not is_exceeded:
            found.append(f"record {offset} is a dead letter, and was neither rejected nor delivered {limit} times")
        if offset in dead and any(one.is_certain for one in seen.accepted.get(offset, ())):
            found.append(f"record {offset} is a dead letter, and was accepted")
        if offset not in dead and seen.rejections.get(offset):
            found.append(f"record {offset} was rejected, and is no dead letter")
    found += [f"a dead letter names record {offset}, which there is not" for offset in dead if not 0 <= offset < end]
    return found
