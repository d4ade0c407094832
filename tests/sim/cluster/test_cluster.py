"""Three production brokers on a virtual clock, with a scripted controller, under faults: a slice of the campaign.

`make sim` runs a thousand seeds, and `python -m tests.sim.cluster --planted` shows that they detect bugs.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys

import pytest

from tests.sim.cluster.campaign import first_finding, run_one
from tests.sim.cluster.faults import GENTLE, KILLING, PULLING_THE_PLUG
from tests.sim.cluster.planted_bugs import BUGS
from tests.sim.cluster.scenario import PROTOCOLS, cluster_scenario, run_cluster_seed
from tests.sim.transactions.planted_bugs import TRANSACTION_BUGS

ROOT = pathlib.Path(__file__).parents[3]
SEEDS = (0, 1, 2)
TRANSACTIONAL_SEEDS = (4, 5)
SEEDS_OF_TWO_PROCESSES = (3, 4)
"""The second has transactions."""


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cluster_keeps_its_promises_under_faults(seed: int):
    verdict = run_one(seed)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["records acknowledged"] > 100, f"seed {seed} hardly did anything: {verdict.tally}"
    assert verdict.tally["records polled"] > 100, f"seed {seed} hardly read anything: {verdict.tally}"
    assert verdict.tally["elections"] > 3, f"seed {seed} hardly moved a leader: {verdict.tally}"


@pytest.mark.parametrize("seed", TRANSACTIONAL_SEEDS)
def test_transactions_are_all_or_nothing_under_faults(seed: int):
    verdict = run_one(seed)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["transactions committed"] > 10, f"seed {seed} hardly committed anything: {verdict.tally}"
    assert verdict.tally["transactions aborted"] > 2, f"seed {seed} hardly aborted anything: {verdict.tally}"
    assert verdict.tally["transactions of unknown outcome"] > 2, f"no producer failed in seed {seed}: {verdict.tally}"
    assert verdict.tally["producers fenced"] > 0, f"no producer was fenced in seed {seed}: {verdict.tally}"
    assert verdict.tally["requests given up in flight"] > 2, f"seed {seed} delayed no requests: {verdict.tally}"
    assert verdict.tally["committed records polled"] > 50, f"seed {seed} hardly read anything: {verdict.tally}"


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_it_keeps_them_when_consumers_read_from_followers_too(seed: int):
    plan = dataclasses.replace(cluster_scenario(seed), reads_anywhere=True)
    verdict = run_cluster_seed(plan, 1)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["records polled"] > 100, f"seed {seed} hardly read anything: {verdict.tally}"


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_it_reads_and_acknowledges_through_outages_of_the_store_that_end_every_session(seed: int):
    plan = dataclasses.replace(cluster_scenario(seed), faults=("outage",), seconds=8.0)
    verdict = run_cluster_seed(plan, 1)
    assert not verdict.findings, verdict.text()
    assert verdict.tally["acknowledged without a session"] > 20, verdict.tally
    assert verdict.tally["read without a session"] > 20, verdict.tally


def test_a_planted_bug_is_found():
    found = first_finding(next(bug for bug in BUGS if "own append" in bug.name))
    assert found is not None
    assert any(finding.startswith("I1 ") for finding in found.findings)


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("the last stable offset ignores open transactions", "T2"),
        ("a new coordinator does not resume prepared transactions", "T5"),
        ("a successor is given the epoch of its predecessor", "T9"),
        ("offsets of a transaction are applied when they are appended", "T8"),
    ],
)
def test_a_planted_bug_of_transactions_is_found(name: str, law: str):
    found = first_finding(next(bug for bug in TRANSACTION_BUGS if bug.name == name))
    assert found is not None
    assert any(finding.startswith(law) for finding in found.findings), found.text()


def test_the_same_seed_does_the_same_in_another_process_with_other_hashes():
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT / '.import'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.sim.cluster", "--digests", "--processes", "1"]
    command += ["--seeds", "{}-{}".format(*SEEDS_OF_TWO_PROCESSES)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    digests = [f"{seed} {run_one(seed).digest}" for seed in SEEDS_OF_TWO_PROCESSES]
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
