"""The production broker on a virtual clock, with a simulated network and a disk that forgets, under faults."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.sim.broker import SimBroker
from tests.sim.scenario import run_seed, scenario

ROOT = pathlib.Path(__file__).parents[2]
SEEDS = range(4)
SEED_RUN_AGAIN = 12


@pytest.mark.parametrize("seed", SEEDS)
def test_the_broker_keeps_its_promises_under_faults(seed: int):
    plan = scenario(seed)
    verdict = run_seed(plan, SimBroker)
    assert not verdict.findings, verdict.text()
    assert verdict.acknowledged > 300, f"seed {seed} hardly did anything: {verdict.text()}"
    assert verdict.polled > 300, f"seed {seed} hardly read anything: {verdict.text()}"
    assert verdict.generations > 2, f"seed {seed} hardly has groups: {verdict.text()}"


def test_the_seeds_of_this_test_strike_every_fault():
    """So that a change of the plan does not silently leave one out."""
    planned = {kind for seed in SEEDS for kind in scenario(seed).faults}
    assert {"reset", "half_open", "slow_link", "sleeper", "clock_jump", "disk_full", "short_write"} <= planned
    assert {"stop", "kill", "die_writing", "die_starting", "die_stopping", "disk_error"} <= planned
    assert {"power", "power_starting"} <= planned
    assert {"pause", "offsets_full", "offsets_error", "slow_loading"} <= planned


def test_the_same_seed_does_the_same_again_and_in_another_process_with_other_hashes():
    first, second = (run_seed(scenario(SEED_RUN_AGAIN), SimBroker) for _ in range(2))
    assert first.digest == second.digest, f"seed {SEED_RUN_AGAIN}"
    assert first.steps == second.steps
    reported = _digest_in_a_process(hash_seed="1")
    assert reported.split() == [str(SEED_RUN_AGAIN), first.digest], f"seed {SEED_RUN_AGAIN}"


def _digest_in_a_process(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / '.import'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.sim", "--digests", "--seeds", str(SEED_RUN_AGAIN)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
