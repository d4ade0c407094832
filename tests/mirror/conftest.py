"""SORDINI_MIRROR=all has the long runs; SORDINI_MIRROR_SEED and _KILLS are of the plan of kills, _MINUTES of two ways."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from sordini.testing import Kafka, make_kafka
from tests.support.collected import leave_out, of_folder

EVERYTHING = os.environ.get("SORDINI_MIRROR") == "all"
SEED = int(os.environ.get("SORDINI_MIRROR_SEED", "1"))
KILLS = int(os.environ.get("SORDINI_MIRROR_KILLS", "50"))
MINUTES = float(os.environ.get("SORDINI_MIRROR_MINUTES", "10"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long_mirror: runs with SORDINI_MIRROR=all alone, as `make mirror` sets it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = of_folder(items, "tests/mirror")
    left_out = [] if EVERYTHING else [item for item in ours if item.get_closest_marker("long_mirror")]
    leave_out(config, items, left_out)


@pytest.fixture
def central() -> Iterator[Kafka]:
    """The target."""
    with make_kafka() as kafka:
        yield kafka
