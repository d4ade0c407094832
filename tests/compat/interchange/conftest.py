"""The journeys, each made once. A quick run has the one that stops in order, with the newer Apache Kafka.

`make interchange`, which sets SORDINI_INTERCHANGE=all, adds the older one, brokers that are killed, clients that continue
their transactions with the next broker, and both cleaners at work on the same history. `newer` and `older` do so with
one of the two. Groups of the consumer protocol and stored states of share groups that are moved to Apache Kafka 4.4.0 and
back: SORDINI_MOVED_GROUPS=all, as `make moved-groups` sets it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.compat.interchange.cluster import Exchange
from tests.compat.interchange.journeys import CleanJourney, KilledJourney, clean_journey, killed_journey
from tests.outside.versions import BESIDE_OURS

WANTED = os.environ.get("SORDINI_INTERCHANGE", "")
EVERYTHING = bool(WANTED)
VERSIONS = BESIDE_OURS[WANTED]

collect_ignore = [] if EVERYTHING else ["test_cleaners.py", "test_killed.py", "test_open_transactions.py"]
if os.environ.get("SORDINI_MOVED_GROUPS") != "all":
    collect_ignore += ["test_moved_groups.py", "test_moved_share_states.py"]


@pytest.fixture(scope="session", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """The Apache Kafka that takes turns with ours."""
    wanted: str = request.param
    return wanted


@pytest.fixture(scope="session")
def exchange(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Exchange]]:
    """Clusters that change hands, each with a directory of its own; what runs is ended with the session."""
    made: list[Exchange] = []

    def make(name: str, port: int | None = None) -> Exchange:
        made.append(Exchange(tmp_path_factory.mktemp(name), zookeeper, port))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def clean(exchange: Callable[[str], Exchange], version: str) -> CleanJourney:
    return clean_journey(exchange(f"clean-{version}"), version)


@pytest.fixture(scope="session")
def killed(exchange: Callable[[str], Exchange], version: str) -> KilledJourney:
    return killed_journey(exchange(f"killed-{version}"), version)
