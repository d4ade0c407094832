"""What a simulated world leaves behind is collected with its test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def world_is_collected() -> Iterator[None]:
    """The coroutines of killed processes end in the middle, and say so; in another test that would be an error."""
    yield
    gc.collect()
