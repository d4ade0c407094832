"""Answers of a busy round leave together; those of a quiet one at once."""

from __future__ import annotations

import asyncio

from sordini.broker.network.outbox import AT_ONCE_MAX, LARGE_ROUND_MIN, SMALL_ROUNDS_MAX, Outbox


def holds_back(outbox: Outbox) -> bool:
    """Whether a response is held back now; as a transport does, it counts those that are not."""
    if outbox.at_once_left:
        outbox.at_once_left -= 1
        return False
    return True


async def a_round(outbox: Outbox, answers: int) -> list[str]:
    """One round of the loop with so many answers: which left at once and which at its end, in the order they left."""
    left: list[str] = []
    for number in range(answers):
        if holds_back(outbox):
            outbox.add(lambda number=number: left.append(f"{number} at the end"))
        else:
            left.append(f"{number} at once")
    await asyncio.sleep(0)
    return left


async def a_held_back_outbox() -> Outbox:
    outbox = Outbox()
    for _ in range(AT_ONCE_MAX):
        assert not holds_back(outbox)
    return outbox


async def test_answers_leave_at_once_until_it_is_time_to_look():
    outbox = Outbox()
    left = await a_round(outbox, AT_ONCE_MAX + 2)
    assert left[AT_ONCE_MAX - 1 :] == [
        f"{AT_ONCE_MAX - 1} at once",
        f"{AT_ONCE_MAX} at the end",
        f"{AT_ONCE_MAX + 1} at the end",
    ]


async def test_large_rounds_stay_held_back_and_leave_in_order():
    outbox = await a_held_back_outbox()
    for _ in range(10 * SMALL_ROUNDS_MAX):
        left = await a_round(outbox, LARGE_ROUND_MIN)
        assert left == [f"{number} at the end" for number in range(LARGE_ROUND_MIN)]


async def test_after_some_small_rounds_in_a_row_answers_leave_at_once_again():
    outbox = await a_held_back_outbox()
    for _ in range(SMALL_ROUNDS_MAX):
        assert await a_round(outbox, 1) == ["0 at the end"]
    assert await a_round(outbox, 2) == ["0 at once", "1 at once"]


async def test_a_large_round_makes_the_small_ones_before_it_count_no_more():
    outbox = await a_held_back_outbox()
    for _ in range(SMALL_ROUNDS_MAX - 1):
        await a_round(outbox, 1)
    await a_round(outbox, LARGE_ROUND_MIN)
    for _ in range(SMALL_ROUNDS_MAX):
        assert await a_round(outbox, 1) == ["0 at the end"]
