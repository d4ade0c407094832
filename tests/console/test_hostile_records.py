"""Twenty-one hostile records, a hostile group and a hostile client: shown as text, and nothing of them runs."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.console.conftest import Tab
from tests.console.scene import HOSTILE, HOSTILE_CLIENT, HOSTILE_GROUP

CONTROLS = "\x00\x07\x08\x0b\x0c\x1b\x7f\x80\x9b\u202e\u2066\u200b"


def assert_harmless(tab: Tab) -> None:
    page = tab.page
    assert "owned" not in page.title()
    assert page.locator("main script, main img, main svg:not(.line svg), main iframe, main b").count() == 0
    assert page.locator("form[action*='evil']").count() == 0
    text = page.evaluate("document.body.innerText")
    assert not set(CONTROLS) & set(text)


@pytest.mark.parametrize("decoder", ["auto", "text", "json", "hex"])
def test_the_list_shows_all_of_them_as_text(tab: Tab, decoder: str) -> None:
    page = tab.open(f"/topic/records?name=hostile&start=beginning&limit=100&key_as={decoder}&value_as={decoder}")
    assert page.locator("#records tbody tr").count() == len(HOSTILE)
    assert_harmless(tab)
    assert len(page.content()) < 1_000_000, "of a value of ten megabytes the page has the beginning"
    if decoder == "auto":
        assert page.get_by_text("<script>document.title='owned'</script>", exact=True).count() >= 2
        assert page.get_by_text("{{ 7 * 7 }}", exact=True).count() == 1
        assert "first part of" in page.locator("#records tbody tr").last.inner_text()


@pytest.mark.parametrize("offset", range(len(HOSTILE)))
def test_each_has_a_page(tab: Tab, offset: int) -> None:
    for decoder in ("auto", "hex", "json"):
        page = tab.open(f"/topic/record?name=hostile&partition=0&offset={offset}&key_as={decoder}&value_as={decoder}")
        assert page.get_by_role("heading", name="Headers").count() == 1
        assert_harmless(tab)


def test_a_value_of_ten_megabytes_is_downloaded_whole(tab: Tab) -> None:
    page = tab.open(f"/topic/record?name=hostile&partition=0&offset={len(HOSTILE) - 1}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the value").click()
    assert download.value.path().read_bytes() == HOSTILE[-1][1]


def test_they_can_be_followed_and_searched(tab: Tab) -> None:
    for where in ("any", "key", "value", "header", "json"):
        text = "$.a" if where == "json" else "<script>"
        page = tab.open(
            f"/topic/records?{urlencode({'name': 'hostile', 'text': text, 'where': where, 'limit': '100'})}"
        )
        assert page.locator("#records tbody tr").count() >= 1
        assert_harmless(tab)


def test_a_group_and_a_client_with_markup_in_their_names_are_text(tab: Tab) -> None:
    page = tab.open("/groups")
    page.get_by_role("link", name=HOSTILE_GROUP).click()
    assert page.locator("h1").inner_text() == HOSTILE_GROUP
    assert page.get_by_text(HOSTILE_CLIENT, exact=True).count() >= 1
    assert_harmless(tab)
    for tab_name in ("Rebalances", "Reset offsets", "Members and lag"):
        page.get_by_role("link", name=tab_name).click()
        assert page.locator("h1").inner_text() == HOSTILE_GROUP
        assert page.get_by_role("alert").count() == 0
        assert "owned" not in page.title()


@pytest.mark.parametrize("value", ["<script>x</script>", "\x1b[2J", "\u202e", "{{7*7}}", "a" * 1_999])
def test_fields_of_a_query_come_back_as_text(tab: Tab, value: str) -> None:
    for path in ("/topics", "/groups", "/", "/transactions", "/acls"):
        page = tab.open(f"{path}?{urlencode({'find': value})}")
        assert page.locator("main script").count() == 0
        assert page.get_by_role("alert").count() == 0
