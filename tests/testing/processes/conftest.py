"""`sordini dev --control` as its users start it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.outside.processes import DevProcess


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """Three brokers with a control, shared by a module: the ids of its faults begin with 1."""
    with DevProcess(tmp_path_factory.mktemp("dev"), "--control", "0") as running:
        yield running
