"""`sordini quotas`: what it asks for, what it shows, and what it refuses before it connects."""

from __future__ import annotations

import pytest

from sordini.admin.failure import Failure
from sordini.cli.commands.security import quotas


@pytest.mark.parametrize(
    ("names", "entity"),
    [
        (("alice", None, None), {"user": "alice"}),
        (("default", "app", None), {"user": None, "client-id": "app"}),
        ((None, "default", None), {"client-id": None}),
        ((None, None, "192.0.2.1"), {"ip": "192.0.2.1"}),
    ],
)
def test_the_default_is_the_entity_without_a_name(
    names: tuple[str | None, str | None, str | None], entity: dict[str, str | None]
) -> None:
    assert quotas._entity(*names) == entity


@pytest.mark.parametrize("names", [(None, None, None), ("alice", None, "192.0.2.1"), (None, "app", "default")])
def test_an_entity_that_cannot_be_is_refused(names: tuple[str | None, str | None, str | None]) -> None:
    with pytest.raises(Failure, match=r"--user|--address"):
        quotas._entity(*names)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("producer_byte_rate", 1_000_000.0, "1,000,000 bytes/s"),
        ("producer_byte_rate", 123_456_789_012.0, "123,456,789,012 bytes/s"),
        ("request_percentage", 12.5, "12.5 % of a core"),
        ("controller_mutation_rate", None, "not limited"),
        ("a_newer_one", 5.0, "5"),
    ],
)
def test_amounts_are_shown_in_full_with_their_unit(key: str, value: float | None, text: str) -> None:
    assert quotas._amount(key, value) == text
