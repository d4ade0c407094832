"""What planted faults share: one broker with many listeners, another cluster, and a ZooKeeper where it is needed.

A run has a third of the tests that each start programs of their own, and another third with the next SORDINI_PART.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doctor.many_listeners import ManyListeners
from tests.doctor.planted import World
from tests.outside.processes import SordiniProcess
from tests.support.collected import leave_out, of_folder
from tests.support.parts import every

OTHERWISE_PARTED = ("test_client_way.py", "test_client_messages.py")
STEP = 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    own = [item for item in of_folder(items, "tests/doctor") if item.path.name not in OTHERWISE_PARTED]
    parted = [item for item in own if item.get_closest_marker("slow") is None]
    chosen = set(every(STEP, sorted(parted, key=lambda item: item.nodeid)))
    leave_out(config, items, [item for item in parted if item not in chosen])


@pytest.fixture(scope="session")
def world(
    tmp_path_factory: pytest.TempPathFactory, sordini_broker: SordiniProcess, request: pytest.FixtureRequest
) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("doctor")
    many = ManyListeners(directory, sordini_broker.port)
    with many.process:
        yield World(directory, many, lambda: str(request.getfixturevalue("zookeeper")))
