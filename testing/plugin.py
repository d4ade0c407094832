"""The pytest plugin: fixtures `kafka`, `kafka_cluster` and `make_kafka`; faults are shown with the failure of a test.

It is found by its entry point (`pytest11`), so nothing is imported in a test session but this file until a fixture is
used. `kafka` and `kafka_cluster` are shared by the tests of one process, which gets brokers of its own under xdist:
each test has topics and groups of its own by their names, and what a test has done to the brokers is undone after it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from sordini.testing.kafka import Kafka

CLUSTER_BROKERS = 3
LOG_LINES_SHOWN = 40
ISOLATION: Final = "kafka_isolation"
_USED = pytest.StashKey[list["Kafka"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        ISOLATION,
        "Where the brokers of the fixtures run: thread (default), or process: one of their own for each cluster",
        default="thread",
    )


@pytest.fixture(scope="session")
def make_kafka_session(pytestconfig: pytest.Config) -> Iterator[Callable[..., Kafka]]:
    """Makes clusters that live as long as the session: `make_kafka_session(brokers=3)`."""
    with ExitStack() as running:
        yield _maker(running, pytestconfig, None)


@pytest.fixture(scope="module")
def make_kafka_module(pytestconfig: pytest.Config) -> Iterator[Callable[..., Kafka]]:
    """Makes clusters that live as long as the module's tests."""
    with ExitStack() as running:
        yield _maker(running, pytestconfig, None)


@pytest.fixture
def make_kafka(request: pytest.FixtureRequest) -> Iterator[Callable[..., Kafka]]:
    """Makes clusters that live as long as the test: `make_kafka(brokers=3, config={"min.insync.replicas": 2})`."""
    with ExitStack() as running:
        yield _maker(running, request.config, request.node)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """One broker, shared by all tests of this process, with everything undone that a test does to it."""
    yield from _shared(request, 1)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """Three brokers, shared as `kafka` is."""
    yield from _shared(request, CLUSTER_BROKERS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.when == "call":
        for one in item.stash.get(_USED, []):
            injected = one.report()
            if injected:
                report.sections.append(("faults of the test's Kafka", injected))
            report.sections.append(("log of the test's Kafka", "\n".join(one.log_lines(LOG_LINES_SHOWN))))
    return report


@pytest.hookimpl(trylast=True)  # After Ctrl-C fixtures are torn down by pytest's own hook of this name.
def pytest_sessionfinish(session: pytest.Session) -> None:
    for one in session.config.stash.get(_SHARED, {}).values():
        one.close()


_SHARED = pytest.StashKey[dict[int, "Kafka"]]()
"""The clusters of the session, by their numbers of brokers."""


def _make_kafka() -> Callable[..., Kafka]:
    """The kit, imported; where it does not run, the test fails with that sentence alone."""
    from sordini.system.supported import UnsupportedSystem

    try:
        from sordini.testing.kafka import make_kafka
    except UnsupportedSystem as refused:
        pytest.fail(str(refused), pytrace=False)
    return make_kafka


def _maker(running: ExitStack, config: pytest.Config, node: Any) -> Callable[..., Kafka]:
    started_later = _make_kafka()

    def make(brokers: int = 1, **settings: Any) -> Kafka:
        made = started_later(brokers, **{"isolation": config.getini(ISOLATION), **settings}).start()
        running.callback(made.close)
        if node is not None:
            node.stash.setdefault(_USED, []).append(made)
        return made

    return make


def _shared(request: pytest.FixtureRequest, brokers: int) -> Iterator[Kafka]:
    started_later = _make_kafka()
    made = request.config.stash.setdefault(_SHARED, {})
    found = made.get(brokers)
    if found is None:
        found = made[brokers] = started_later(brokers, isolation=request.config.getini(ISOLATION)).start()
    request.node.stash.setdefault(_USED, []).append(found)
    found.begin_test()
    yield found
    found.end_test()
