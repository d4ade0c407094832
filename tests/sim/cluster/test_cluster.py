"""Three production brokers on a virtual clock, with a scripted controller, under faults: a slice of the campaign.

`make sim` runs a thousand seeds, and `python -m tests.sim.cluster --planted` shows that they detect bugs. A run has one
of the planted bugs here (`tests/support/parts.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import subprocess
import sys

import pytest

from tests.sim.cluster.campaign import ALL_BUGS, first_finding, run_one
from tests.sim.cluster.faults import GENTLE, KILLING, PULLING_THE_PLUG
from tests.sim.cluster.plan import PROTOCOLS, cluster_scenario
from tests.sim.cluster.scenario import run_cluster_seed
from tests.support.parts import part_of

ROOT = pathlib.Path(__file__).parents[3]
SEED = 3
TRANSACTIONAL_SEED = 4
GROUP_SEED = 9
SEEDS_ELSEWHERE = (0, 1)
"""For the runs in which consumers read from followers, and in which the store has outages."""
PLANTED = [
    ("offsets of a transaction are applied when they are appended", "T8"),
    ("own append", "I1 "),
    ("the last stable offset ignores open transactions", "T2"),
    ("a new coordinator does not resume prepared transactions", "T5"),
    ("a successor is given the epoch of its predecessor", "T9"),
    ("a coordinator answers before its records are committed", "K2"),
    ("sessions do not start again when a group is loaded", "K4"),
]
"""Bugs by words of their names, and the law that each breaks."""
verdict_of = functools.cache(run_one)


@pytest.mark.parametrize("seed", [SEED])
def test_the_cluster_keeps_its_promises_under_faults(seed: int):
    verdict = verdict_of(seed)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["records acknowledged"] > 100, f"seed {seed} hardly did anything: {verdict.tally}"
    assert verdict.tally["records polled"] > 100, f"seed {seed} hardly read anything: {verdict.tally}"
    assert verdict.tally["elections"] > 3, f"seed {seed} hardly moved a leader: {verdict.tally}"


@pytest.mark.parametrize("seed", [TRANSACTIONAL_SEED])
def test_transactions_are_all_or_nothing_under_faults(seed: int):
    verdict = verdict_of(seed)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["transactions committed"] > 10, f"seed {seed} hardly committed anything: {verdict.tally}"
    assert verdict.tally["transactions aborted"] > 2, f"seed {seed} hardly aborted anything: {verdict.tally}"
    assert verdict.tally["transactions of unknown outcome"] > 2, f"no producer failed in seed {seed}: {verdict.tally}"
    assert verdict.tally["producers fenced"] > 0, f"no producer was fenced in seed {seed}: {verdict.tally}"
    assert verdict.tally["requests given up in flight"] > 2, f"seed {seed} delayed no requests: {verdict.tally}"
    assert verdict.tally["committed records polled"] > 50, f"seed {seed} hardly read anything: {verdict.tally}"


@pytest.mark.parametrize("seed", [GROUP_SEED])
def test_members_of_groups_own_and_read_every_partition_under_faults(seed: int):
    verdict = verdict_of(seed)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["offsets committed by members"] > 50, f"seed {seed} hardly committed: {verdict.tally}"
    assert verdict.tally["partitions given to members"] > 20, f"seed {seed} hardly assigned: {verdict.tally}"
    assert verdict.tally["records consumed in groups"] > 300, f"seed {seed} hardly consumed: {verdict.tally}"
    assert verdict.tally["members fenced"] > 0, f"seed {seed} fenced no member: {verdict.tally}"
    assert verdict.tally["claims of instance ids"] > 0, f"seed {seed} has no static member: {verdict.tally}"


@pytest.mark.parametrize("seed", part_of(SEEDS_ELSEWHERE, 1))
def test_it_keeps_them_when_consumers_read_from_followers_too(seed: int):
    plan = dataclasses.replace(cluster_scenario(seed), reads_anywhere=True)
    verdict = run_cluster_seed(plan, 1)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["records polled"] > 100, f"seed {seed} hardly read anything: {verdict.tally}"


@pytest.mark.parametrize("seed", part_of(SEEDS_ELSEWHERE, 1))
def test_it_reads_and_acknowledges_through_outages_of_the_store_that_end_every_session(seed: int):
    plan = dataclasses.replace(cluster_scenario(seed), faults=("outage",), seconds=8.0)
    verdict = run_cluster_seed(plan, 1)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["acknowledged without a session"] > 20, verdict.tally
    assert verdict.tally["read without a session"] > 20, verdict.tally


@pytest.mark.parametrize(("name", "law"), part_of(PLANTED, 1))
def test_a_planted_bug_is_found(name: str, law: str):
    found = first_finding(next(bug for bug in ALL_BUGS if name in bug.name))
    assert found is not None
    assert any(finding.startswith(law) for finding in found.findings), found.text()


def test_the_same_seed_does_the_same_in_another_process_with_other_hashes():
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT / '.import'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.sim.cluster", "--digests", "--processes", "1"]
    command += ["--seeds", f"{SEED}-{TRANSACTIONAL_SEED}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    digests = [f"{seed} {verdict_of(seed).digest}" for seed in (SEED, TRANSACTIONAL_SEED)]
    assert done.stdout.splitlines() == digests


def test_the_first_seeds_strike_every_fault_and_speak_every_protocol():
    """So that a change of the plan does not silently leave one out."""
    plans = [cluster_scenario(seed) for seed in range(40)]
    assert {kind for plan in plans for kind in plan.faults} == {*GENTLE, *KILLING, *PULLING_THE_PLUG}
    assert {plan.protocol for plan in plans} == set(PROTOCOLS)
    assert {plan.versions.alters_isr_in_store for plan in plans} == {False, True}
    assert {plan.versions.truncates_on_fetch for plan in plans} == {False, True}
    transactional = [plan for plan in plans if plan.has_transactions]
    assert len(transactional) == len(plans) / 2
    assert {plan.faults for plan in transactional} == {plan.faults for plan in plans}
    assert {plan.versions.alters_isr_in_store for plan in transactional} == {False, True}
