"""The clients that the documents describe, of Apache Kafka 1.1.1, unmodified, on clusters of ours with a ZooKeeper.

A quick run has ours only. `make originals`, which sets SORDINI_ORIGINALS=all, has Apache Kafka 2.7.2 as the judge of the
same tests, and the tests in which programs are killed; there members are restarted in new programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import OURS, Cluster
from tests.outside.tools import JavaTools
from tests.outside.versions import OLDER_APACHE_KAFKA, ORIGINAL_CLIENTS

EVERYTHING = bool(os.environ.get("SORDINI_ORIGINALS"))
PROTOCOL = "2.7"

collect_ignore = [] if EVERYTHING else ["test_killed_members.py"]


@pytest.fixture(scope="session", params=[OURS, *[OLDER_APACHE_KAFKA] * EVERYTHING])
def kind(request: pytest.FixtureRequest) -> str:
    """Whose brokers the clients have before them."""
    wanted: str = request.param
    return wanted


def started(kind: str, brokers: int, zookeeper: str, factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of so many brokers, with every partition on all of them; it is stopped in the end."""
    cluster = Cluster(factory.mktemp("originals"), zookeeper, PROTOCOL)
    try:
        ids = tuple(range(1, brokers + 1))
        cluster.start(dict.fromkeys(ids, kind))
        cluster.create_internal(ids)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def single(kind: str, zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker, shared by the tests here: use topics and groups of your own."""
    yield from started(kind, 1, zookeeper, tmp_path_factory)


@pytest.fixture(scope="session")
def original_tools() -> Iterator[JavaTools]:
    with JavaTools(ORIGINAL_CLIENTS) as tools:
        yield tools
