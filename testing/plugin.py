"""The pytest plugin: fixtures `kafka`, `kafka_cluster` and `make_kafka`; faults are shown with the failure of a test.

A test fails with what a `when` of its rules has raised, and for a rule that does nothing. Where another plugin has a
fixture of the same name, the end of the run says which one was used.

It is found by its entry point (`pytest11`), so nothing is imported in a test session but this file and fixtures.py
until a fixture is used. `kafka` and `kafka_cluster` are shared by the tests of one process, which gets brokers of its
own under xdist: each test has topics and groups of its own by their names, and what a test has done to the brokers is
undone after it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest

from sordini.testing import fixtures
from sordini.testing.fixtures import FIXTURES, ISOLATION, LASTING, SHARED, USED

if TYPE_CHECKING:
    from sordini.testing.kafka import Kafka

LOG_LINES_SHOWN = 40
PREFERRED: Final = "kafka_fixtures"
OURS: Final = "sordini"
OTHERS: Final = "others"
WIDER: Final = (
    "\nA fixture that lives longer than a test makes its own brokers: make_kafka_session(), make_kafka_module()."
)
_NOTES_OF_WORKER: Final = "sordini_notes"
_NOT_OTHERS: Final = (__name__, fixtures.__name__)
_NOTES = pytest.StashKey[dict[str, str]]()
"""Of the session: what is to be said of a fixture that two plugins have, by its name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        ISOLATION,
        "Where the brokers of the fixtures run: thread (default), or process: one of their own for each cluster",
        default="thread",
    )
    parser.addini(
        PREFERRED,
        f"Whose fixtures are used where another plugin has the same names: {OURS} (default) or {OTHERS}",
        default=OURS,
    )


@pytest.hookimpl(tryfirst=True)  # Before the fixtures of the test are made.
def pytest_runtest_setup(item: pytest.Item) -> None:
    for one in item.config.stash.get(LASTING, []):
        _said_of(one.begin_report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What the rules of a test got wrong is its failure, more so than what came of it."""
    try:
        result = yield
    except (Exception, pytest.fail.Exception):  # Raised again - after what the rules got wrong.
        _check_rules(item)
        raise
    _check_rules(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.excinfo is not None and str(call.excinfo.value).startswith("ScopeMismatch"):
        _name_wider_fixtures(call.excinfo.value)
    report = yield
    if report.failed and call.when in ("setup", "call"):
        for one in _clusters(item):
            injected = _said_of(one.report)
            if injected:
                report.sections.append(("faults of the test's Kafka", injected))
            logged = _said_of(lambda one=one: one.report_log(LOG_LINES_SHOWN))  # type: ignore[misc]
            if logged:
                report.sections.append(("log of the test's Kafka", logged))
    return report


@pytest.hookimpl(trylast=True)  # All plugins that are installed or named are there.
def pytest_configure(config: pytest.Config) -> None:
    """Put the fixtures behind those of all other plugins: pytest takes the last one of a name."""
    preferred = config.getini(PREFERRED)
    if preferred not in (OURS, OTHERS):
        raise pytest.UsageError(f"{PREFERRED}={preferred}: allowed are {OURS} and {OTHERS}")
    chosen = ModuleType(fixtures.__name__)
    for name in FIXTURES:
        if preferred == OURS or not _others_with(config, name):
            setattr(chosen, name, getattr(fixtures, name))
    config.pluginmanager.register(chosen, f"{OURS}-fixtures")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note for each fixture that tests use whether another plugin's is hidden by ours, or ours not there."""
    notes: dict[str, str] = {}
    requested = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for name in [name for name in FIXTURES if name in requested]:
        others = _others_with(session.config, name)
        if others:
            used, hidden = f"{OURS}'s", f"that of {', '.join(others)}"
            if session.config.getini(PREFERRED) == OTHERS:
                used, hidden = hidden, used
            notes[name] = (
                f"fixture {name!r} is {used}, not {hidden}: choose by {PREFERRED} = {OURS} or {PREFERRED} = {OTHERS} "
                f"in pytest's configuration, or by -p no:{OURS}"
            )
    session.config.stash[_NOTES] = notes
    if hasattr(session.config, "workeroutput"):  # Of pytest-xdist, where the terminal is another process's.
        session.config.workeroutput[_NOTES_OF_WORKER] = notes


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_NOTES] = getattr(node, "workeroutput", {}).get(_NOTES_OF_WORKER, {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for note in config.stash.get(_NOTES, {}).values():
        terminalreporter.write_line(f"{OURS}: {note}")


@pytest.hookimpl(trylast=True)  # After Ctrl-C fixtures are torn down by pytest's own hook of this name.
def pytest_sessionfinish(session: pytest.Session) -> None:
    for one in session.config.stash.get(SHARED, {}).values():
        one.close()


def _others_with(config: pytest.Config, name: str) -> list[str]:
    """The other plugins that have a fixture of a name. A conftest.py is none: it is there to override."""
    modules = [one for one in config.pluginmanager.get_plugins() if isinstance(one, ModuleType)]
    return [
        one.__name__
        for one in modules
        if one.__name__ not in _NOT_OTHERS
        and one.__name__.rpartition(".")[2] != "conftest"
        and _is_fixture(getattr(one, name, None))
    ]


def _clusters(item: pytest.Item) -> list[Kafka]:
    return [*item.stash.get(USED, []), *item.config.stash.get(LASTING, [])]


def _check_rules(item: pytest.Item) -> None:
    for one in _clusters(item):
        one.check_rules()


def _said_of(say: Callable[[], str | None]) -> str | None:
    """What a cluster says; of one that is closed, or whose process is gone, that."""
    from sordini.testing.brokers.site import SiteFailed

    try:
        return say()
    except SiteFailed as failed:
        return str(failed)


def _name_wider_fixtures(mismatch: Any) -> None:
    """Say in pytest's own message what to use instead."""
    message = getattr(mismatch, "msg", None)
    if isinstance(message, str) and any(f"fixture {name} " in message for name in FIXTURES):
        mismatch.msg = message + WIDER


def _is_fixture(found: Any) -> bool:
    # From pytest 8.4 on a fixture is of a class of its own, before it is a marked function.
    kind: type = type(fixtures.kafka)
    return type(found) is kind and (kind is not FunctionType or hasattr(found, "_pytestfixturefunction"))
