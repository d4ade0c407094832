"""Fixtures that every folder of tests may use: the real programs, started once and only when asked for."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.outside.guardian import Guardian, start_guardian
from tests.outside.java import ApacheKafkaProcess, ZooKeeperProcess
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.support.alone import Alone
from tests.support.parts import SLOW, examples, leave_out_slow

CLIENTS_WITH_THREADS = frozenset({"kafka", "kazoo", "aiokafka"})

# Groups that wait neither for a second member when the first has come, nor six seconds for one that died.
QUICK_GROUPS: dict[str, object] = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}

GUARDIAN = pytest.StashKey[Guardian | None]()

# Nearly all that is imported and collected stays: garbage collections would go through it again and again.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        choices=["sordini", "apache"],
        default="sordini",
        help="whom the compat tests speak to; `apache` proves the tests themselves right",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", SLOW)
    # A run that is told to stop still stops the programs it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell's background job has SIGINT ignored, and programs started by it would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # kafka-python loads its schemas through a function that Python 3.11 calls deprecated.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    if not hasattr(config, "workerinput"):  # A worker and its programs are the run's.
        config.stash[GUARDIAN] = start_guardian()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    guardian = config.stash.get(GUARDIAN, None)
    left = guardian.end() if guardian is not None else []
    for words in left:
        sys.stderr.write(f"left by the tests, now killed: {words}\n")


TOGETHER = {
    "situations": ("tests/compat/test_situations",),
    "stores": (
        "tests/compat/interchange",
        "tests/compat/originals",
        "tests/compat/test_raised_epochs",
        "tests/contract",
        "tests/heritage",
    ),
    "judged": ("tests/compat",),
    "clusters": ("tests/cluster", "tests/exactly_once"),
    "programs": ("tests/process", "tests/doctor", "tests/mirror/test_mirror_process.py"),
    "spark": ("tests/pipeline",),
}
"""Folders whose tests start programs, share them, and wait for them; those of Spark have a session of their own."""
LONGEST_FIRST = ("judged", "programs", "clusters", "stores", "spark", "situations", "")
IS_CROWDED = bool(os.environ.get("SORDINI_MIXED"))
"""Whole clusters of Apache Kafka leave room for one other group of programs, and for Spark's."""


class ByNeed(LoadScopeScheduling):  # type: ignore[misc]
    """Shares the tests out among workers, a file at a time, but those of TOGETHER's folders together.

    So each program is started once for a group. The other workers have what computes.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid.partition("::")[0]


def group_of(nodeid: str) -> str:
    """Which group of TOGETHER a test is in; empty for most."""
    found = next((group for group, folders in TOGETHER.items() if nodeid.startswith(folders)), "")
    return "programs" if IS_CROWDED and found in ("situations", "stores", "judged") else found


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByNeed:
    config.option.loadscopereorder = False
    return ByNeed(config, log)


def give_clients_their_own_randomness() -> None:
    """Clients draw from the global `random` in threads of theirs, which may run on beside later tests.

    Hypothesis takes a change of that state for the test's own, and fails it.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in CLIENTS_WITH_THREADS and getattr(module, "random", None) is random:
            module.random = random.Random()  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with the longest groups, so that none has a long one left when the others are done."""
    leave_out_slow(config, items)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: LONGEST_FIRST.index(group_of(item.nodeid)))


def pytest_collection_finish() -> None:
    give_clients_their_own_randomness()
    # No test's garbage collection need go through what was imported and collected.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file's tests leave behind stays, too: a tenth of a second of each collection that a later test asks for."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile(
    "sordini", max_examples=examples(100), deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("sordini")


@pytest.fixture(scope="session")
def zookeeper_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A real ZooKeeper, shared by the session."""
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


@pytest.fixture(scope="session")
def zookeeper(zookeeper_process: ZooKeeperProcess) -> str:
    """The shared ZooKeeper's "127.0.0.1:port": use a chroot of your own below it."""
    return zookeeper_process.connect


@pytest.fixture(scope="session")
def apache_kafka(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap address of one Apache Kafka broker, shared by the session: use topics of your own."""
    directory = tmp_path_factory.mktemp("apache-kafka")
    # No test waits for the end of its session, so the session may outlast the pauses of a busy machine.
    settings = {**QUICK_GROUPS, "zookeeper.session.timeout.ms": 10_000}
    with ApacheKafkaProcess(directory, f"{zookeeper}/shared", settings) as process:
        yield process.bootstrap


@pytest.fixture(scope="session")
def sordini_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    """One of our brokers in a process of its own, shared by the session: use topics of your own."""
    with SordiniProcess(tmp_path_factory.mktemp("sordini"), QUICK_GROUPS) as process:
        yield process


@pytest.fixture
def start_sordini(tmp_path: Path) -> Iterator[Callable[..., SordiniProcess]]:
    """Start brokers of one's own: `start_sordini({"num.partitions": 3})`; the test's end stops them."""
    started: list[SordiniProcess] = []

    def start(overrides: dict[str, object] | None = None) -> SordiniProcess:
        process = SordiniProcess(tmp_path / f"sordini-{len(started)}", overrides)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.stop()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the broker that `--broker` names."""
    if request.config.getoption("--broker") == "apache":
        address: str = request.getfixturevalue("apache_kafka")
        return address
    broker: SordiniProcess = request.getfixturevalue("sordini_broker")
    return broker.bootstrap


@pytest.fixture
def start_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """`start_broker({"num.partitions": 3})`: brokers of the kind that `--broker` names, stopped with the test."""
    started: list[BrokerProcess] = []

    def start(overrides: dict[str, object] | None = None) -> BrokerProcess:
        settings, directory = {**QUICK_GROUPS, **(overrides or {})}, tmp_path / f"broker-{len(started)}"
        if request.config.getoption("--broker") == "apache":
            zookeeper = request.getfixturevalue("zookeeper")
            started.append(ApacheKafkaProcess(directory, f"{zookeeper}/{uuid4().hex}", settings))
        else:
            started.append(SordiniProcess(directory, settings))
        return started[-1].start()

    yield start
    for process in started:
        process.stop()


@pytest.fixture
def own_broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker of the kind that `--broker` names which this test alone uses, to stop, kill and restart."""
    return start_broker()


@pytest.fixture(scope="module")
def alone() -> Iterator[Alone]:
    """`alone(function, argument)`: in a process of its own, where only what the function does counts."""
    with Alone() as child:
        yield child


@pytest.fixture
def topic() -> str:
    """A topic name nobody else uses."""
    return f"topic-{uuid4().hex[:12]}"
