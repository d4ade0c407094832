"""SORDINI_MIRROR=all has the long runs; SORDINI_MIRROR_SEED and _KILLS are of the plan of kills, _MINUTES of two ways."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sordini.testing import Kafka, make_kafka

EVERYTHING = os.environ.get("SORDINI_MIRROR") == "all"
SEED = int(os.environ.get("SORDINI_MIRROR_SEED", "1"))
KILLS = int(os.environ.get("SORDINI_MIRROR_KILLS", "50"))
MINUTES = float(os.environ.get("SORDINI_MIRROR_MINUTES", "10"))
HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long_mirror: runs with SORDINI_MIRROR=all alone, as `make mirror` sets it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    left_out = [] if EVERYTHING else [item for item in ours if item.get_closest_marker("long_mirror")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def central() -> Iterator[Kafka]:
    """The target."""
    with make_kafka() as kafka:
        yield kafka
