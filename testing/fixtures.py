"""The fixtures of the pytest plugin. They are a plugin of their own, which `plugin.py` registers behind all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from sordini.testing.kafka import Kafka

CLUSTER_BROKERS = 3
ISOLATION: Final = "kafka_isolation"
FIXTURES: Final = ("kafka", "kafka_cluster", "make_kafka", "make_kafka_module", "make_kafka_session")
USED = pytest.StashKey[list["Kafka"]]()
"""Of a test: its clusters."""
LASTING = pytest.StashKey[list["Kafka"]]()
"""Of the session: the clusters of modules and of the session, which any test may use."""
SHARED = pytest.StashKey[dict[int, "Kafka"]]()
"""Of the session: those of `kafka` and `kafka_cluster`, by their numbers of brokers."""


@pytest.fixture(scope="session")
def make_kafka_session(pytestconfig: pytest.Config) -> Iterator[Callable[..., Kafka]]:
    """Makes clusters that live as long as the session: `make_kafka_session(brokers=3)`."""
    with ExitStack() as running:
        yield _maker(running, pytestconfig, pytestconfig.stash.setdefault(LASTING, []))


@pytest.fixture(scope="module")
def make_kafka_module(pytestconfig: pytest.Config) -> Iterator[Callable[..., Kafka]]:
    """Makes clusters that live as long as the module's tests."""
    with ExitStack() as running:
        yield _maker(running, pytestconfig, pytestconfig.stash.setdefault(LASTING, []))


@pytest.fixture
def make_kafka(request: pytest.FixtureRequest) -> Iterator[Callable[..., Kafka]]:
    """Makes clusters that live as long as the test: `make_kafka(brokers=3, config={"min.insync.replicas": 2})`."""
    with ExitStack() as running:
        yield _maker(running, request.config, request.node.stash.setdefault(USED, []))


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """One broker, shared by all tests of this process, with everything undone that a test does to it."""
    yield from _shared(request, 1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """Three brokers, shared as `kafka` is."""
    yield from _shared(request, CLUSTER_BROKERS)


def _make_kafka() -> Callable[..., Kafka]:
    """The kit, imported; where it does not run, the test fails with that sentence alone."""
    from sordini.system.supported import UnsupportedSystem

    try:
        from sordini.testing.making import make_kafka
    except UnsupportedSystem as refused:
        pytest.fail(str(refused), pytrace=False)
    return make_kafka


def _maker(running: ExitStack, config: pytest.Config, made_here: list[Kafka]) -> Callable[..., Kafka]:
    """Makes clusters, which are in `made_here` as long as `running` is not closed."""
    started_later = _make_kafka()

    def make(brokers: int = 1, **settings: Any) -> Kafka:
        made = started_later(brokers, **{"isolation": config.getini(ISOLATION), **settings}).start()
        running.callback(made.close)
        made_here.append(made)
        running.callback(made_here.remove, made)
        return made

    return make


def _shared(request: pytest.FixtureRequest, brokers: int) -> Iterator[Kafka]:
    started_later = _make_kafka()
    made = request.config.stash.setdefault(SHARED, {})
    found = made.get(brokers)
    if found is None:
        found = made[brokers] = started_later(brokers, isolation=request.config.getini(ISOLATION)).start()
    request.node.stash.setdefault(USED, []).append(found)
    found.begin_test()
    yield found
    found.end_test()
