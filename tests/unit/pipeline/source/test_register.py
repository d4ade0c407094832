from __future__ import annotations

from typing import Any

import pytest

from sordini.pipeline.source import TooOld, register


class Session:
    """What `register` sees of a session."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.registered: list[type[Any]] = []

    @property
    def dataSource(self) -> Session:  # noqa: N802 - Spark's name.
        return self

    def register(self, source: type[Any]) -> None:
        self.registered.append(source)


def test_the_format_is_called_sordini() -> None:
    session = Session("4.2.0")
    register(session)
    assert [source.name() for source in session.registered] == ["sordini"]


@pytest.mark.parametrize("version", ["3.5.7", "4.0.0", "4.1.3"])
def test_an_older_spark_is_reported_what_it_lacks(version: str) -> None:
    with pytest.raises(TooOld, match=rf"this is Spark {version}, .* needs 4\.2"):
        register(Session(version))


def test_a_newer_spark_is_taken() -> None:
    register(Session("10.0.0-SNAPSHOT"))
