"""Three brokers of ours on a real ZooKeeper, shared by all runs; SORDINI_EXACTLY_ONCE=all has the long ones.

SORDINI_EXACTLY_ONCE_SEED is the seed of the plans of kills, SORDINI_EXACTLY_ONCE_ROUNDS how often each broker and each
client is killed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import OURS, Cluster
from tests.exactly_once.judge import BROKERS, SETTINGS
from tests.support.collected import leave_out, of_folder

EVERYTHING = os.environ.get("SORDINI_EXACTLY_ONCE") == "all"
SEED = int(os.environ.get("SORDINI_EXACTLY_ONCE_SEED", "1"))
ROUNDS = int(os.environ.get("SORDINI_EXACTLY_ONCE_ROUNDS", "3"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "minutes: runs with SORDINI_EXACTLY_ONCE=all alone, as `make exactly-once` sets it"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = of_folder(items, "tests/exactly_once")
    left_out = [] if EVERYTHING else [item for item in ours if item.get_closest_marker("minutes")]
    leave_out(config, items, left_out)


@pytest.fixture(scope="package")
def three(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, each of which coordinates some groups and some transactions."""
    cluster = Cluster(tmp_path_factory.mktemp("exactly-once"), zookeeper, "3.9")
    try:
        cluster.start(dict.fromkeys(BROKERS, OURS), SETTINGS)
        yield cluster
        assert cluster.errors() == []
    finally:
        cluster.close()
