"""Clusters of several brokers, Apache Kafka's and ours. `--broker apache` puts an Apache Kafka in the place of ours.

A quick run has the short stories with the newer Apache Kafka; `make mixed`, which sets SORDINI_MIXED=all, has all
of them with both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.aftermath import judge
from tests.cluster.cluster import OURS, Cluster
from tests.outside.needs import APACHE_KAFKA, OLDER_APACHE_KAFKA

EVERYTHING = os.environ.get("SORDINI_MIXED") == "all"
PROTOCOLS = {APACHE_KAFKA: "3.9", OLDER_APACHE_KAFKA: "2.7"}

collect_ignore = [] if EVERYTHING else ["test_faults.py", "test_governed.py"]


@pytest.fixture(scope="session", params=list(PROTOCOLS) if EVERYTHING else [APACHE_KAFKA])
def version(request: pytest.FixtureRequest) -> str:
    """The Apache Kafka beside ours."""
    wanted: str = request.param
    return wanted


@pytest.fixture(scope="session")
def judged(request: pytest.FixtureRequest, version: str) -> str:
    """The kind of broker 4: ours, or with `--broker apache` another Apache Kafka, which proves the tests right."""
    return version if request.config.getoption("--broker") == "apache" else OURS


@pytest.fixture(scope="module")
def start_cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cluster]]:
    """Empty clusters at a protocol version. What they leave behind when the module ends is judged then."""
    made: list[Cluster] = []

    def start(protocol: str) -> Cluster:
        directory: Path = tmp_path_factory.mktemp("cluster")
        made.append(Cluster(directory, zookeeper, protocol))
        return made[-1]

    yield start
    try:
        for one in made:
            judge(one)
    finally:
        for one in made:
            one.close()


@pytest.fixture(scope="module")
def cluster(start_cluster: Callable[[str], Cluster], version: str, judged: str) -> Cluster:
    """Three Apache Kafkas, 1 to 3, of which 1 is the controller, and ours as 4."""
    made = start_cluster(PROTOCOLS[version])
    made.start({1: version, 2: version, 3: version})
    made.start({4: judged})
    made.create_internal((1, 2, 3))
    return made


@pytest.fixture
def governed(cluster: Cluster) -> Cluster:
    """The cluster with 1 as its controller, whoever was it before."""
    cluster.move_controller(1)
    return cluster
