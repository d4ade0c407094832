"""Every page in a real browser: under its policy, without another host, accessible, and live where it says so."""

from __future__ import annotations

from typing import Any

import pytest

try:
    from playwright.sync_api import expect
except ModuleNotFoundError:  # The fixture `chromium` says how it is installed.
    expect = None
from confluent_kafka import Producer

from tests.console.conftest import Tab
from tests.console.console_process import ConsoleProcess
from tests.console.pages import PAGES
from tests.outside.processes import DevProcess

NOT_FOUND = "Failed to load resource: the server responded with a status of 404 (Not Found)"


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_a_heading_landmarks_and_no_error(tab: Tab, name: str) -> None:
    page = tab.open(PAGES[name])
    assert page.locator("h1").count() == 1
    for landmark in ("banner", "main", "navigation", "contentinfo"):
        assert page.get_by_role(landmark).count() >= 1
    assert page.title().endswith("Sordini console")
    assert not {"None", "undefined", "Undefined"} & set(page.locator("main").inner_text().split())
    tab.problems = [problem for problem in tab.problems if not (name == "not-found" and problem == NOT_FOUND)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium: Any, console: ConsoleProcess, axe: str, theme: str) -> None:
    # The tool is injected beside the policy of the page, which runs no such text by itself.
    tab = Tab(chromium, console, color_scheme=theme, bypass_csp=True)
    serious = []
    for name, path in PAGES.items():
        page = tab.open(path)
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious += [
            (name, one["id"], one["help"], one["nodes"][0]["html"])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    tab.context.close()
    assert serious == []


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_page_is_wider_than_the_window(chromium: Any, console: ConsoleProcess, width: int) -> None:
    tab = Tab(chromium, console, viewport={"width": width, "height": 900})
    wide = {}
    for name, path in PAGES.items():
        found = tab.open(path).evaluate("document.documentElement.scrollWidth")
        if found > width:
            wide[name] = found
    tab.context.close()
    assert wide == {}


def test_times_are_in_the_zone_of_the_browser_and_their_titles_in_utc(chromium: Any, console: ConsoleProcess) -> None:
    tab = Tab(chromium, console, timezone_id="Asia/Tokyo")
    page = tab.open(PAGES["record"])
    time = page.locator("dl.facts time")
    assert page.locator("#zone").inner_text() == "Asia/Tokyo"
    hours = int(time.inner_text()[11:13]) - int(time.get_attribute("title")[11:13])
    assert hours % 24 == 9
    assert time.get_attribute("title").endswith("UTC")
    tab.context.close()
    tab.check()


def test_the_colours_can_be_switched_and_are_kept(tab: Tab) -> None:
    page = tab.open("/topics")
    for theme in ("light", "dark"):
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == theme
    tab.open("/groups")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") is None


def test_the_first_tab_stop_skips_to_the_content(tab: Tab) -> None:
    page = tab.open("/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('content').contains(document.activeElement)")


def test_the_groups_get_their_lag_in_a_second_request(tab: Tab) -> None:
    page = tab.open("/groups")
    row = page.get_by_role("row").filter(has_text="reports")
    row.get_by_text("540").wait_for()


def test_the_end_offsets_of_the_cluster_move_without_a_reload(tab: Tab, dev: DevProcess) -> None:
    page = tab.open("/?find=audit.log")
    end = page.locator("[data-row='audit.log:0'] td:nth-child(6)")
    before = int(end.inner_text())
    page.evaluate("window.was_not_loaded_again = true")
    producer = Producer({"bootstrap.servers": dev.bootstrap})
    producer.produce("audit.log", b"one")
    assert producer.flush(30) == 0
    expect(end).to_have_text(str(before + 1), timeout=20_000)
    assert page.evaluate("window.was_not_loaded_again")
    page.locator("#pause").click()
    assert page.locator("#pause").inner_text() == "Continue"


def test_the_lag_of_a_group_is_drawn_on_without_a_reload(tab: Tab) -> None:
    page = tab.open("/group?name=reports")
    line = page.locator("#lag_plot polyline").last
    before = line.get_attribute("points")
    expect(line).not_to_have_attribute("points", before, timeout=20_000)
    assert len(line.get_attribute("points").split()) > 1


def test_records_that_arrive_are_shown_and_those_that_are_not_are_counted(tab: Tab, dev: DevProcess) -> None:
    page = tab.open("/topic/records?name=audit.log")
    with page.expect_request(lambda request: "/live/records" in request.url):
        page.locator("#follow").click()
    page.wait_for_timeout(1_500)  # The stream begins at the end of the log as it is then.
    producer = Producer({"bootstrap.servers": dev.bootstrap, "linger.ms": 50})
    for number in range(3_000):
        producer.produce("audit.log", f"live record {number}".encode())
    assert producer.flush(30) == 0
    page.get_by_text("live record 2999", exact=True).wait_for()
    page.get_by_text("records were skipped").wait_for()
    assert page.locator("#records tbody tr").count() <= 200
    page.locator("#follow").click()
    assert page.locator("#follow").get_attribute("aria-pressed") == "false"
