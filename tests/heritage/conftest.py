"""The documents' clients before brokers of ours: the test kit's, and two that share a ZooKeeper, for what needs one.

A plain run has a short slice; SORDINI_HERITAGE=all, as `make heritage` sets it, repeats the tests with stopped members.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from sordini.testing import Kafka, make_kafka
from tests.cluster.cluster import OURS, Cluster
from tests.heritage.documented_site import DocumentedSite

SETTINGS = {"zookeeper.session.timeout.ms": 2_000, "offsets.topic.replication.factor": 1}


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
