"""The pages in the repository are those that would be written now."""

import pytest

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.keys.ignored_keys import WITHOUT_EFFECT
from sordini.broker.configuration.keys.protection_keys import BY_LISTENER, SERVED, TABLE
from sordini.broker.configuration.topic_config import TOPIC_SETTINGS
from tests.reference.pages import PAGES, ROOT


@pytest.mark.parametrize("path", PAGES)
def test_the_page_says_what_the_code_declares(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path](), "write it anew: python -m tests.reference"


def test_the_reference_has_every_key_there_is() -> None:
    page = PAGES["docs/configuration.md"]()
    assert [
        key for key in [*SETTINGS, *TOPIC_SETTINGS, *WITHOUT_EFFECT, *TABLE, *SERVED] if f"`{key}`" not in page
    ] == []
    assert [key for key in BY_LISTENER.keys if f"`listener.name.<name>.{key}`" not in page] == []


def test_the_properties_have_every_broker_key_once() -> None:
    lines = PAGES["config/server.properties"]().splitlines()
    given = [line[1:].partition("=")[0] for line in lines if line.startswith("#") and not line.startswith(("# ", "##"))]
    assert sorted(given) == sorted(SETTINGS)
