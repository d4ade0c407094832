"""The production broker on a virtual clock, with a simulated network and a disk that forgets, under faults.

`make sim` runs a hundred seeds.
"""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import sys

import pytest

from tests.sim.broker import SimBroker
from tests.sim.scenario import Verdict, run_seed, scenario

ROOT = pathlib.Path(__file__).parents[2]
SEEDS = (2, 3)


@functools.cache
def verdict_of(seed: int) -> Verdict:
    return run_seed(scenario(seed), SimBroker)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_broker_keeps_its_promises_under_faults(seed: int):
    verdict = verdict_of(seed)
    assert not verdict.findings, verdict.text()
    assert verdict.acknowledged > 300, f"seed {seed} hardly did anything: {verdict.text()}"
    assert verdict.polled > 300, f"seed {seed} hardly read anything: {verdict.text()}"
    assert verdict.generations > 2, f"seed {seed} hardly has groups: {verdict.text()}"


def test_the_first_seeds_strike_every_fault():
    """So that a change of the plan does not silently leave one out."""
    planned = {kind for seed in range(4) for kind in scenario(seed).faults}
    assert {"reset", "half_open", "slow_link", "sleeper", "clock_jump", "disk_full", "short_write"} <= planned
    assert {"stop", "kill", "die_writing", "die_starting", "die_stopping", "disk_error"} <= planned
    assert {"power", "power_starting"} <= planned
    assert {"pause", "offsets_full", "offsets_error", "slow_loading"} <= planned


def test_the_same_seed_does_the_same_after_other_seeds_and_in_another_process_with_other_hashes():
    seed = SEEDS[-1]
    digests = [verdict_of(each).digest for each in SEEDS]
    assert _digest_in_a_process(seed, hash_seed="1").split() == [str(seed), digests[-1]], f"seed {seed}"


def _digest_in_a_process(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / '.import'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.sim", "--digests", "--seeds", str(seed)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
