"""One id for each schema, whatever fails: some seconds here, ten minutes in `make registry`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sordini.testing import make_kafka
from tests.registry.journal.campaign import NUMBERING, REST, Campaign, Kind, KitCampaign, Result
from tests.registry.journal.process_campaign import ProcessCampaign, brokers_in_processes
from tests.registry.journal.verdict import verdict

EVERYTHING = os.environ.get("SORDINI_REGISTRY") == "all"
SECONDS = float(os.environ.get("SORDINI_REGISTRY_SECONDS", "600" if EVERYTHING else "4"))
SEED = int(os.environ.get("SORDINI_REGISTRY_SEED", "1"))
CONFIG = {"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 0}


def judged(campaign: Campaign, name: str) -> None:
    result: Result = campaign.run()
    sys.stdout.write(f"{name}, seed {SEED}, {SECONDS:g} s: {result}\n")
    assert result.wrong == []
    assert result.answered > SECONDS
    assert result.terms > 0


@pytest.mark.parametrize("kind", [NUMBERING, REST] if EVERYTHING else [NUMBERING], ids=str)
def test_every_schema_has_one_id_whatever_fails_meanwhile(tmp_path: Path, kind: Kind) -> None:
    with make_kafka(3, config=CONFIG) as kafka:
        judged(KitCampaign(kafka, tmp_path, SEED, SECONDS, kind), str(kind))


@pytest.mark.skipif(
    not EVERYTHING, reason="`make registry` runs it: brokers in processes take a minute to be disturbed"
)
def test_every_schema_has_one_id_when_processes_of_brokers_are_killed(tmp_path: Path) -> None:
    with brokers_in_processes(tmp_path) as cluster:
        judged(ProcessCampaign(cluster, tmp_path / "registries", SEED, SECONDS), "brokers in processes")


def test_the_judge_names_what_is_wrong() -> None:
    logged = [("a", 1), ("b", 2)]
    state = dict(logged)
    assert verdict(logged, [("a", 1)], [state, state], ["x", "x"]) == []
    assert verdict([*logged, ("a", 3)], [], [], []) == ["schema 'a' has the ids 1 and 3"]
    assert verdict([*logged, ("c", 2)], [], [], []) == ["id 2 is of the schemas 'b' and 'c'"]
    assert verdict(logged, [("c", 3)], [], []) == ["schema 'c' was answered with id 3, and has None in the log"]
    assert verdict(logged, [], [state, {"a": 1}], ["x", "y"]) == [
        "registry 1 has a state that is not the log's",
        "registries have read different records",
    ]
