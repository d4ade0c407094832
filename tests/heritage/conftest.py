"""The documents' clients before brokers of ours: the test kit's, and two that share a ZooKeeper, for what needs one.

A plain run has a short slice. What is marked `long` runs in `make heritage`, which sets SORDINI_HERITAGE=all, and repeats
what is done to members.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from sordini.testing import Kafka, make_kafka
from tests.cluster.cluster import OURS, Cluster
from tests.heritage.documented_site import DocumentedSite
from tests.support.collected import leave_out, of_folder

EVERYTHING = os.environ.get("SORDINI_HERITAGE") == "all"
SETTINGS = {"zookeeper.session.timeout.ms": 2_000, "offsets.topic.replication.factor": 1}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: runs with SORDINI_HERITAGE=all alone, as `make heritage` sets it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [] if EVERYTHING else of_folder(items, "tests/heritage")
    leave_out(config, items, [item for item in ours if item.get_closest_marker("long")])


@pytest.fixture(scope="module")
def kit() -> Iterator[Kafka]:
    with make_kafka(brokers=2) as made:
        yield made


@pytest.fixture
def kafka(kit: Kafka) -> Iterator[Kafka]:
    kit.begin_test()
    yield kit
    kit.end_test()


@pytest.fixture(scope="session")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Brokers 1 and 2, shared by the session."""
    cluster = Cluster(tmp_path_factory.mktemp("heritage"), zookeeper, "2.7")
    try:
        cluster.start({1: OURS, 2: OURS}, SETTINGS)
        yield cluster
    finally:
        cluster.close()


_numbers = itertools.count()


@pytest.fixture
def site(cluster: Cluster) -> Iterator[DocumentedSite]:
    """The cluster with a group and topics of this test's own; connectors are shut down in the end."""
    with DocumentedSite(cluster, f"test-{next(_numbers)}") as made:
        yield made
