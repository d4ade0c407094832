"""The judge of share groups finds each promise that is broken, and none that is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.compat.shares.deliveries import Seen, broken_promises
from tests.support.share_group import ACCEPT, REJECT, RELEASE, RENEW

LIMIT = 3
ENDED = 100.0
INVALID_RECORD_STATE = 121


def acquired(at: float, member: str = "ann", offset: int = 0, deliveries: int = 1, lock: float = 10) -> Any:
    span = {"first": offset, "last": offset, "deliveries": deliveries, "lock": lock}
    return {"what": "acquired", "member": member, **span, "sent": at - 0.1, "at": at}


def said(at: float, kind: int = ACCEPT, member: str = "ann", offset: int = 0, code: int = 0) -> list[Any]:
    common = {"member": member, "first": offset, "last": offset, "kind": kind, "sent": at - 0.1}
    return [{"what": "says", **common}, {"what": "said", **common, "code": code, "at": at}]


def judged(
    *workers: Sequence[Any],
    end: int = 1,
    kills: Sequence[tuple[float, float]] = (),
    dead: Counter[int] | None = None,
    ended: float = ENDED,
) -> list[str]:
    seen = Seen()
    for rows in workers:
        flat = [row for one in rows for row in (one if isinstance(one, list) else [one])]
        seen.read([json.dumps(row) for row in flat], ended)
    return broken_promises(seen, end, LIMIT, kills, dead)


def test_a_record_that_is_accepted_keeps_all_promises() -> None:
    assert judged([acquired(1), said(2)], dead=Counter()) == []


def test_a_record_that_is_not_finished_is_found() -> None:
    assert judged([acquired(1), said(2, RELEASE)]) == ["record 0 was never done"]
    assert judged([acquired(1), said(2)], end=2) == ["record 1 was never done"]


def test_an_acceptance_without_an_answer_may_be_one() -> None:
    says, _ = said(2)
    assert judged([acquired(1), says]) == []


def test_a_delivery_behind_the_answer_to_an_acceptance_is_found() -> None:
    (found,) = judged([acquired(1), said(2)], [acquired(3, "ben", deliveries=2)])
    assert "delivered to ben behind the answer" in found


def test_a_second_acceptance_is_found() -> None:
    found = judged([acquired(1), said(2)], [acquired(1.95, "ben"), said(3, member="ben")])
    assert "record 0 was accepted 2 times" in found


def test_what_is_said_behind_the_end_of_a_lock_may_have_no_effect() -> None:
    late = [acquired(1, lock=1), said(5)]
    assert judged(late, [acquired(3, "ben", deliveries=2), said(4, member="ben")]) == []
    assert judged(late, dead=Counter([0]))[:1] == [
        "record 0 is a dead letter, and was neither rejected nor delivered 3 times"
    ]
    assert judged([acquired(1, lock=1), said(5, REJECT)], dead=Counter()) == []


def test_a_record_that_two_workers_hold_is_found_unless_the_broker_failed_or_the_lock_may_have_ended() -> None:
    first, second = [acquired(1)], [acquired(3, "ben"), said(4, member="ben")]
    assert judged(first, second) == ["record 0 was delivered to ben while ann held it"]
    assert judged(first, second, kills=[(1.5, 2.0)]) == []
    assert judged([acquired(1, lock=1)], second) == []
    assert judged([acquired(1), said(2, RELEASE)], second) == []
    assert judged([acquired(1), {"what": "failed", "why": "x", "at": 2.0}], second) == []


def test_a_killed_worker_holds_nothing_any_more() -> None:
    seen = Seen()
    seen.read([json.dumps(acquired(1)), '{"what": "acq'], 2.0)
    seen.read([json.dumps(row) for row in [acquired(3, "ben"), *said(4, member="ben")]], ENDED)
    assert broken_promises(seen, 1, LIMIT, (), None) == []


def test_a_lock_that_was_renewed_is_still_held() -> None:
    assert judged([acquired(1), said(2, RENEW)], [acquired(3, "ben"), said(4, member="ben")]) != []


def test_a_refused_acceptance_is_none() -> None:
    assert (
        judged([acquired(1), said(2, code=INVALID_RECORD_STATE)], [acquired(20, "ben"), said(21, member="ben")]) == []
    )


def test_a_delivery_beyond_the_limit_is_found() -> None:
    (found,) = judged([acquired(1, deliveries=LIMIT + 1), said(2)])
    assert found == "record 0 was delivered 4 times, of 3"


def test_dead_letters_are_those_that_were_rejected_or_delivered_too_often() -> None:
    rejected, exceeded = [acquired(1), said(2, REJECT)], [acquired(1, deliveries=LIMIT), said(2, RELEASE)]
    assert judged(rejected, dead=Counter([0])) == []
    assert judged(rejected, dead=Counter([0, 0])) == [], "a duplicate is named, and no fault"
    assert judged(exceeded, dead=Counter([0])) == []
    assert judged(rejected, dead=Counter()) == ["record 0 was rejected, and is no dead letter"]
    assert judged(exceeded, dead=Counter()) == ["record 0 was never done"]
    (neither,) = judged([acquired(1), said(2, RELEASE)], dead=Counter([0]))
    assert "neither rejected nor delivered 3 times" in neither
    assert "record 0 is a dead letter, and was accepted" in judged([acquired(1), said(2)], dead=Counter([0]))
    assert judged([acquired(1), said(2)], dead=Counter([7]))[-1] == "a dead letter names record 7, which there is not"
