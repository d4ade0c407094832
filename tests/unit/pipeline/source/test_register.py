from __future__ import annotations

from typing import Any

import pytest

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source import TooOld, register
from sordini.pipeline.source.older_spark import check_admission
from sordini.pipeline.source.options import read_options


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


@pytest.mark.parametrize("version", ["3.5.7", "3.0.0"])
def test_an_older_spark_is_reported_what_it_lacks(version: str) -> None:
    with pytest.raises(TooOld, match=rf"this is Spark {version}, .* needs 4\.0"):
        register(Session(version))


@pytest.mark.parametrize("version", ["4.0.0", "4.1.3", "10.0.0-SNAPSHOT"])
def test_every_later_spark_is_taken(version: str) -> None:
    register(Session(version))


def test_a_limit_that_a_version_cannot_keep_is_refused_with_the_version_that_can() -> None:
    given = {"kafka.bootstrap.servers": "one:9092", "subscribe": "t"}
    check_admission(read_options(given, streaming=True), "4.0.5")
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
        with pytest.raises(BadSetting, match=rf"{name} needs PySpark 4\.2, and this is 4\.0\.5"):
            check_admission(read_options({**given, name: "5"}, streaming=True), "4.0.5")
