"""Every change, through the forms of the pages in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.console.conftest import Tab
from tests.console.console_process import ConsoleProcess
from tests.console.scene import Member, commit, create, until
from tests.outside.processes import DevProcess
from tests.process.test_cli import run_at


def status(page: Any) -> str:
    found: str = page.get_by_role("status").first.inner_text()
    return found


def test_a_topic_is_created_configured_enlarged_and_deleted(tab: Tab, console: ConsoleProcess) -> None:
    page = tab.open("/topics")
    page.get_by_role("link", name="Create a topic").click()
    page.get_by_label("Name").fill("made-here")
    page.get_by_label("Partitions").fill("2")
    page.get_by_label("Replicas of each").fill("3")
    page.get_by_label("Configuration").fill("retention.ms=60000\ncleanup.policy=compact")
    page.get_by_role("button", name="Create").click()
    assert status(page) == "Topic made-here was created."

    page.get_by_role("link", name="Configuration").click()
    page.get_by_role("link", name="Change retention.ms", exact=True).click()
    page.get_by_label("Value").fill("120000")
    page.get_by_role("button", name="Set").click()
    assert status(page) == "retention.ms is 120000 now."
    page.get_by_role("link", name="Change retention.ms", exact=True).click()
    page.get_by_role("button", name="Back to the default").click()
    assert status(page) == "retention.ms is its default again."

    page.get_by_role("link", name="Add partitions").click()
    page.get_by_label("Partitions from now on").fill("4")
    page.get_by_role("button", name="Add partitions").click()
    assert status(page) == "Topic made-here has 4 partitions now."

    page.get_by_role("link", name="Delete").click()
    page.get_by_label("to confirm it").fill("made")
    page.get_by_role("button", name="Delete the topic").click()
    assert "nothing was deleted" in page.get_by_role("alert").inner_text()
    tab.problems.clear()  # The browser names the status 400.
    tab.open("/topic/delete?name=made-here")
    page.get_by_label("to confirm it").fill("made-here")
    page.get_by_role("button", name="Delete the topic").click()
    assert status(page) == "Topic made-here was deleted."
    lines = [line for line in console.output().splitlines() if "console change" in line and "made-here" in line]
    for action in ("create topic", "configure topic", "add partitions", "delete topic"):
        assert any(action in line and "outcome=done" in line for line in lines), action


def test_a_record_is_produced_found_and_downloaded(tab: Tab, dev: DevProcess) -> None:
    create(dev.bootstrap, {"produced": 3})
    page = tab.open("/topic/produce?name=produced")
    page.get_by_label("Key, none if empty").fill("the key")
    page.locator("textarea[name=value]").fill('{"a": [1, 2]}\nsecond line')
    page.get_by_label("Headers").fill("trace: 1234\nempty:")
    page.get_by_role("button", name="Produce").click()
    found = re.fullmatch(r"The record is in partition (\d) at offset 0.", status(page))
    assert found is not None
    assert page.get_by_label("Key", exact=True).inner_text().strip() == "the key"
    assert "second line" in page.get_by_label("Value", exact=True).inner_text()
    assert page.get_by_text("1234").count() == 1
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the value").click()
    assert download.value.path().read_bytes() == b'{"a": [1, 2]}\nsecond line'

    tab.open("/topic/records?name=produced")
    page.get_by_label("Contains").fill("1234")
    page.locator("select[name=where]").select_option("header")
    page.get_by_role("button", name="Search").click()
    assert page.locator("#records tbody tr").count() == 1
    with page.expect_download() as download:
        page.get_by_role("link", name="Download JSON lines").click()
    (line,) = download.value.path().read_text().splitlines()
    assert '"key":"the key"' in line


@pytest.mark.parametrize(("encoding", "given", "expected"), [("hex", "00ff10", "00 ff 10"), ("text", "", "empty")])
def test_bytes_and_empty_values_can_be_produced(tab: Tab, encoding: str, given: str, expected: str) -> None:
    page = tab.open("/topic/produce?name=audit.log")
    page.get_by_label("Encoding of the value").select_option(encoding)
    page.locator("textarea[name=value]").fill(given)
    page.get_by_role("button", name="Produce").click()
    assert expected in page.get_by_label("Value", exact=True).inner_text()


def test_offsets_are_reset_after_a_plan_that_was_seen(tab: Tab, dev: DevProcess) -> None:
    commit(dev.bootstrap, "reset-me", "orders", {0: 5, 1: 7})
    page = tab.open("/group/reset?name=reset-me")
    page.locator("select[name=target]").select_option("shift_by")
    page.get_by_label("Offset, number, time or duration").fill("-6")
    page.get_by_label("Topics, with partitions or without").fill("orders:0,1")
    page.get_by_role("button", name="Show the plan").click()
    rows = page.get_by_role("row")
    assert "the log begins here, not at -1" in rows.nth(1).inner_text()
    assert rows.nth(2).inner_text().split("\t")[1:3] == ["7", "1"]
    page.get_by_role("button", name="Commit these offsets").click()
    assert status(page) == "The offsets of 2 partitions of group reset-me were reset."
    assert "orders:1" in page.locator("main").inner_text()


def test_a_plan_that_is_another_one_by_now_changes_nothing(tab: Tab, dev: DevProcess) -> None:
    commit(dev.bootstrap, "moves", "orders", {0: 5})
    page = tab.open("/group/reset?name=moves")
    page.locator("select[name=target]").select_option("shift_by")
    page.get_by_label("Offset, number, time or duration").fill("1")
    page.get_by_role("button", name="Show the plan").click()
    commit(dev.bootstrap, "moves", "orders", {0: 8})
    page.get_by_role("button", name="Commit these offsets").click()
    assert "nothing was changed" in page.get_by_role("alert").inner_text()
    assert page.get_by_role("row").nth(1).inner_text().split("\t")[1:3] == ["8", "9"], "the plan as it is now"


def test_the_start_offsets_of_a_share_group_are_set_after_a_plan_that_was_seen(tab: Tab, dev: DevProcess) -> None:
    words = ("share", "reset", "reset-queue", "--topic", "orders:0", "--to-latest", "--execute")
    run_at(dev.bootstrap, *words)
    page = tab.open("/group?name=reset-queue")
    page.get_by_role("link", name="Reset offsets").click()
    page.locator("select[name=target]").select_option("to_earliest")
    page.get_by_label("Topics, with partitions or without").fill("orders:0")
    page.get_by_role("button", name="Show the plan").click()
    assert page.get_by_role("row").nth(1).inner_text().split("\t")[2] == "0"
    page.get_by_role("button", name="Set these offsets").click()
    assert status(page) == "The offsets of 1 partition of group reset-queue were reset."
    assert page.locator("#share_partitions").get_by_role("row").nth(1).inner_text().split("\t")[1] == "0"


def test_a_group_with_members_is_not_reset(tab: Tab) -> None:
    page = tab.open("/group/reset?name=billing")
    page.get_by_role("button", name="Show the plan").click()
    assert "Stop its consumers first" in page.get_by_role("alert").inner_text()
    tab.problems.clear()  # The browser names the status 409.


def test_a_member_is_removed(tab: Tab, dev: DevProcess, console: ConsoleProcess) -> None:
    member = Member(dev.bootstrap, "small", "small-1", ["customers"])
    try:
        assert member.has_partitions.wait(30)
        page = tab.open("/group?name=small")
        member_id = page.locator(".members tbody code").first.inner_text()
        page.get_by_role("link", name="Remove small-1").click()
        page.get_by_role("button", name="Remove the member").click()
        assert status(page) == f"Member {member_id} was removed; its client may join again."
        tab.open("/group/history?name=small")
        page.get_by_text("removed").first.wait_for()
        until(lambda: member_id not in tab.open("/group?name=small").locator("main").inner_text())
    finally:
        member.close()
    assert any("remove member" in line and "outcome=done" in line for line in console.output().splitlines())


def test_a_visitor_logs_out(chromium: Any, console: ConsoleProcess) -> None:
    tab = Tab(chromium, console)
    page = tab.open("/topics")
    page.get_by_role("button", name="Log out").click()
    assert page.url == f"{console.root}/login"
    tab.open("/topics")
    assert page.url == f"{console.root}/login"
    page.get_by_label("Token").fill(console.token)
    page.get_by_role("button", name="Log in").click()
    assert page.url == f"{console.root}/"
    tab.context.close()
    tab.check()
