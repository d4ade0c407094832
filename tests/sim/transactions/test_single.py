"""Transactions on one production broker on a virtual clock, whose process is killed and whose disk forgets."""

from __future__ import annotations

import pytest

from tests.sim.transactions.single import POWER_STRUCK, STRUCK, run_single_seed, single_scenario

SEEDS = (0, 1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_are_all_or_nothing_whatever_ends_the_broker(seed: int):
    verdict = run_single_seed(single_scenario(seed), 1)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["transactions committed"] > 10, f"seed {seed} hardly committed anything: {verdict.tally}"
    assert verdict.tally["transactions aborted"] > 5, f"seed {seed} hardly aborted anything: {verdict.tally}"
    assert verdict.tally["committed records polled"] > 30, f"seed {seed} hardly read anything: {verdict.tally}"


def test_the_same_seed_does_the_same_again():
    first, second = (run_single_seed(single_scenario(SEEDS[1]), 1) for _ in range(2))
    assert first.digest == second.digest


def test_the_seeds_lose_their_power_and_do_not():
    assert {single_scenario(seed).faults for seed in SEEDS} == {STRUCK, POWER_STRUCK}
