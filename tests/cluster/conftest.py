"""Clusters of several brokers, Apache Kafka's and ours. `--broker apache` puts an Apache Kafka in the place of ours.

A quick run has the short stories with the newer Apache Kafka; `make mixed`, which sets SORDINI_MIXED=all, has all
of them with both. `newer` and `older` have all of them with one of the two.

The tests of a module share a cluster for as long as they pass. One that fails takes its cluster with it, and the
next begins with a fresh one: what a broken cluster says of other things is not worth hearing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator

import pytest

from tests.cluster.cluster import OURS, Cluster
from tests.cluster.lent_clusters import Lender
from tests.cluster.witness import Witness
from tests.outside.java import ZooKeeperProcess
from tests.outside.versions import APACHE_KAFKA, BESIDE_OURS, OLDER_APACHE_KAFKA

WANTED = os.environ.get("SORDINI_MIXED", "")
EVERYTHING = bool(WANTED)
PROTOCOLS = {APACHE_KAFKA: "3.9", OLDER_APACHE_KAFKA: "2.7"}
FAILED = pytest.StashKey[bool]()

LONG = [
    "test_document_scenarios.py",
    "test_failures_beside_malformed.py",
    "test_faults.py",
    "test_governed.py",
    "test_older_tools.py",
    "test_our_controller.py",
    "test_three_ways.py",
]
collect_ignore = [] if EVERYTHING else LONG


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session", params=BESIDE_OURS[WANTED])
def version(request: pytest.FixtureRequest) -> str:
    """The Apache Kafka beside ours."""
    wanted: str = request.param
    return wanted


@pytest.fixture(scope="session")
def judged(request: pytest.FixtureRequest, version: str) -> str:
    """The kind of broker 4: ours, or with `--broker apache` another Apache Kafka, which proves the tests right."""
    return version if request.config.getoption("--broker") == "apache" else OURS


@pytest.fixture(scope="module")
def lender(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lender]:
    """Where the module's tests have their clusters from. What they leave behind in the end is judged then."""
    made = Lender(zookeeper, lambda: tmp_path_factory.mktemp("cluster"))
    try:
        yield made
        made.judge()
    finally:
        made.close()


@pytest.fixture
def lend(lender: Lender, request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """`lend(protocol, start)`: the module's cluster at a protocol version; `start` fills an empty one."""
    yield lender.lend
    if request.node.stash.get(FAILED, False):
        lender.discard()


@pytest.fixture
def cluster(lend: Callable[..., Cluster], version: str, judged: str) -> Cluster:
    """Three Apache Kafkas, 1 to 3, of which 1 is the controller, and ours as 4."""

    def start(made: Cluster) -> None:
        made.start({1: version, 2: version, 3: version})
        made.start({4: judged})
        made.create_internal((1, 2, 3))

    return lend(PROTOCOLS[version], start)


@pytest.fixture
def governed(cluster: Cluster) -> Cluster:
    """The cluster with 1 as its controller."""
    cluster.move_controller(1)
    return cluster


@pytest.fixture
def ruled(cluster: Cluster) -> Cluster:
    """The cluster with 4, ours, as its controller."""
    cluster.move_controller(4)
    return cluster


@pytest.fixture
def witness(zookeeper_process: ZooKeeperProcess, ruled: Cluster) -> Witness:
    """Who has seen every write since the test began."""
    return Witness(zookeeper_process.directory / "data", ruled.tree)


@pytest.fixture
def quick_to_forget(lend: Callable[..., Cluster], version: str) -> Cluster:
    """1 and 2 are ours, and 1 is the controller; 3 is an Apache Kafka when everything is tested. Sessions are short."""

    def start(made: Cluster) -> None:
        kinds = {1: OURS, 2: OURS, 3: version if EVERYTHING else OURS}
        made.start(kinds, {"zookeeper.session.timeout.ms": 2_000})

    cluster: Cluster = lend(PROTOCOLS[version], start)
    cluster.move_controller(1)
    return cluster
