"""Consoles as processes beside real brokers.

Tests with a browser run with SORDINI_CONSOLE: `all`, as `make console` sets it, or `part`, as `.ci/run` does, for one of
BROWSER_PARTS by SORDINI_PART. Of the others a run has a half, and the other half with the next SORDINI_PART.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.console_process import ConsoleProcess
from tests.console.scene import TRANSACTION_TIMEOUT_MS, scene
from tests.outside.needs import need
from tests.outside.processes import DevProcess
from tests.support.collected import leave_out, of_folder
from tests.support.parts import every, part_of

BROWSERS = os.environ.get("SORDINI_CONSOLE", "")
BROWSER_PARTS = [
    ("test_pages.py",),
    ("test_actions.py", "test_pictures.py"),
    ("test_hostile_records.py", "test_apache_kafka.py"),
]
"""A minute each; by files, so that their brokers and their browser are started once."""
CHOSEN = {"all": BROWSER_PARTS, "part": part_of(BROWSER_PARTS, 1)}.get(BROWSERS, [])
STEP = 2
AXE = Path(__file__).resolve().parents[2] / ".cache" / "axe" / "axe.min.js"

collect_ignore = [file for files in BROWSER_PARTS if files not in CHOSEN for file in files]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    with_browser = {file for files in BROWSER_PARTS for file in files}
    parted = [item for item in of_folder(items, "tests/console") if item.path.name not in with_browser]
    chosen = set(every(STEP, sorted(parted, key=lambda item: item.nodeid)))
    leave_out(config, items, [item for item in parted if item not in chosen])


@pytest.fixture(scope="session")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """Three brokers, with a scene."""
    settings = ("message.max.bytes=20000000", f"transaction.max.timeout.ms={TRANSACTION_TIMEOUT_MS}")
    started = DevProcess(tmp_path_factory.mktemp("dev"), *(f"--override={setting}" for setting in settings))
    with started as process, scene(process.bootstrap):
        yield process


@pytest.fixture(scope="session")
def console(dev: DevProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(tmp_path_factory.mktemp("console"), dev.bootstrap) as process:
        yield process


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright, whose event loop runs in this thread: other files need it without one."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    need(program, "Chromium", "`python3 scripts/outside.py console` as root installs it")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        need(False, "Playwright", "`python3 scripts/outside.py console` installs it")
        raise
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """A page of a logged-in visitor, and what went wrong in it."""

    def __init__(self, chromium: Any, console: ConsoleProcess, **options: Any) -> None:
        self.console = console
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(8_000)
        self.problems: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda line: self.problems.append(line.text) if line.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._on_request)
        self.page.goto(f"{console.root}/login?token={console.token}")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith(self.console.root):
            self.foreign.append(request.url)

    def open(self, path: str) -> Any:
        self.page.goto(f"{self.console.root}{path}")
        return self.page

    def check(self) -> None:
        """Nothing was refused by the policy, nothing failed, and nothing left this machine."""
        assert self.problems == []
        assert self.foreign == []


@pytest.fixture
def tab(chromium: Any, console: ConsoleProcess) -> Iterator[Tab]:
    made = Tab(chromium, console)
    yield made
    made.context.close()
    made.check()


@pytest.fixture(scope="session")
def axe() -> str:
    need(AXE.exists(), "axe-core", "`python3 scripts/outside.py console` fetches it from npm")
    return AXE.read_text()
