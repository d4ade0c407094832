"""The pictures of docs/console.md: three widths, both themes, of the pages as they are. `make console` writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

try:
    from playwright.sync_api import expect
except ModuleNotFoundError:  # The fixture `chromium` says how it is installed.
    expect = None

from tests.console.conftest import Tab
from tests.console.console_process import ConsoleProcess
from tests.console.pages import PAGES
from tests.console.scene import produce_orders
from tests.outside.processes import DevProcess

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "console"
WIDTHS = {"wide": (1280, 860), "tablet": (820, 1000), "phone": (390, 844)}
THEMES = ("light", "dark")
SHOWN = ("cluster", "records", "group", "rebalances")
WRITTEN = os.environ.get("SORDINI_PICTURES") == "all"
RECORDS, BURSTS_MAX = 1_500, 60
"""So many at once, until the picture of a lag has POINTS_MIN."""
POINTS_MIN = 6


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_pictures_of_the_documentation(
    chromium: Any, console: ConsoleProcess, dev: DevProcess, tmp_path: Path, width: str, theme: str
) -> None:
    """Written into docs/ with SORDINI_PICTURES=all, else aside: each run would change their bytes."""
    folder = FOLDER if WRITTEN else tmp_path
    folder.mkdir(exist_ok=True)
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    tab = Tab(chromium, console, viewport=size, color_scheme=theme, timezone_id="Europe/Zurich")
    for name in SHOWN:
        page = tab.open(PAGES[name])
        if name == "cluster":
            expect(page.locator("#partitions td:nth-child(8)").first).to_have_text(re.compile(r"\d"), timeout=20_000)
            # A path of this machine, and what else is on its disk.
            page.locator("#pause").click()
            page.evaluate(
                "document.querySelectorAll('.disk code').forEach(one => { one.textContent = '/var/lib/sordini' })"
            )
        if name == "group" and WRITTEN:
            draw_lag(page, dev.bootstrap)
        page.screenshot(path=folder / f"{name}-{width}-{theme}.png")
        assert (folder / f"{name}-{width}-{theme}.png").stat().st_size > 5_000
    tab.context.close()


def draw_lag(page: Any, bootstrap: str) -> None:
    """Produce while the page looks, so that its plot has a lag."""
    for _ in range(BURSTS_MAX):
        if len(page.locator("#lag_plot polyline").last.get_attribute("points").split()) >= POINTS_MIN:
            return
        produce_orders(bootstrap, RECORDS)
        page.wait_for_timeout(300)
