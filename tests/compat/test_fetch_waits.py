"""Which rows of a Fetch end its wait: the same conversations with Apache Kafka 3.9.1 and with Sordini."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.cluster.tree import Tree
from tests.compat.situations.compare import compare
from tests.compat.situations.definitions import Definitions
from tests.compat.situations.difference import ANYTHING, Difference
from tests.compat.situations.registry import normalise
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker
from tests.compat.waits.cases import all_asked, play
from tests.compat.waits.talks import conversions, failed_directory, made_again, segments
from tests.compat.waits.tree import ELSEWHERE, SECRET, TOPICS, plant
from tests.outside.java import ApacheKafkaProcess
from tests.outside.needs import kafka_clients_jar
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import APACHE_KAFKA

IS_WHOLE = os.environ.get("SORDINI_SPIN") == "all"
VERSIONS = (4, 7, 9, 11, 12, 13, 15, 17) if IS_WHOLE else (13,)
RECREATED = [(version, beside) for version in (12, 13, 17) for beside in (True, False)]
whole = pytest.mark.skipif(not IS_WHOLE, reason="`make spin` runs it")

SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "log.retention.ms": -1,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "replica.high.watermark.checkpoint.interval.ms": 200,
    "zookeeper.session.timeout.ms": 18_000,
}


class Side(NamedTuple):
    """One broker with the planted topics."""

    broker: Broker
    directories: tuple[Path, Path]
    ids: dict[str, bytes]


def _side(process: BrokerProcess, definitions: Definitions) -> Side:
    broker = Broker("127.0.0.1", process.port, definitions, prefix=f"run{uuid4().hex[:8]}")

    def seen() -> Any:
        asked = [{"name": name} for name in TOPICS]
        return broker.ask("Metadata", 12, topics=asked, allow_auto_topic_creation=False)["topics"]

    def led(rows: Any) -> bool:
        return all(
            row["error_code"] == 0
            and len(row["partitions"]) == len(TOPICS[row["name"]])
            and (row["name"] == ELSEWHERE or all(part["leader_id"] == 0 for part in row["partitions"]))
            for row in rows
        )

    rows = until(seen, led)
    assert led(rows), rows
    entry = {"resource_type": 2, "resource_name": SECRET, "resource_pattern_type": 3, "principal": "User:other"}
    entry |= {"host": "*", "operation": 3, "permission_type": 3}
    made = broker.ask("CreateAcls", 3, creations=[entry])
    assert made["results"][0]["error_code"] == 0, made
    directories = (process.directory / "one", process.directory / "two")
    return Side(broker, directories, {row["name"]: row["topic_id"] for row in rows})


def _settings(directory: Path, connect: str) -> dict[str, object]:
    tree = Tree(connect)
    plant(tree)
    tree.close()
    return {**SETTINGS, "zookeeper.connect": connect, "log.dirs": f"{directory}/one,{directory}/two"}


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    return Definitions(kafka_clients_jar(APACHE_KAFKA))


@pytest.fixture(scope="module")
def apache(zookeeper: str, definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    directory, connect = tmp_path_factory.mktemp("waits-apache"), f"{zookeeper}/waits-{uuid4().hex[:8]}"
    with ApacheKafkaProcess(directory, connect, _settings(directory, connect)) as process:
        side = _side(process, definitions)
        yield side
        side.broker.close()
        process.kill()  # There is nothing to keep, and an orderly stop waits for the brokers that are gone.


@pytest.fixture(scope="module")
def sordini(zookeeper: str, definitions: Definitions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    directory, connect = tmp_path_factory.mktemp("waits-sordini"), f"{zookeeper}/waits-{uuid4().hex[:8]}"
    with SordiniProcess(directory, _settings(directory, connect)) as process:
        side = _side(process, definitions)
        yield side
        side.broker.close()
        process.kill()  # There is nothing to keep, and an orderly stop waits for the brokers that are gone.


REPEATED = (
    "In a session, the error of a topic that is gone ends one wait. Apache Kafka ends every wait with it if no other "
    "topic is requested, or the topic was made again: Java's client and franz-go fetch without pause then."
)
MADE_AGAIN = [
    # Where it is alone, the answer while it waited was the first one.
    Difference("*", "deleted/waited", True, REPEATED),
    Difference("*", "made again, once more/waited", True, REPEATED),
]
DIFFERENCES = [
    Difference("*", f"{case}, v*, later in a session, *, alone/waited", True, REPEATED)
    for case in ("unknown topic", "unknown partition", "negative partition")
]
ALONE = (
    "No session is made for topics alone that may not be read: the client sends its whole request again, and the error is "
    "the same."
)
DIFFERENCES += [
    Difference("*", f"topic that may not be read, v*, {one} session, consumer, alone*", ANYTHING, ALONE)
    for one in ("new", "later in a")
]


def _complaints(apache: Side, sordini: Side, play: Callable[[Side], Any], leave: list[Difference]) -> list[str]:
    theirs, ours = (normalise(play(side), side.broker.prefix) for side in (apache, sordini))
    return compare(theirs, ours, leave)


def test_each_row_ends_the_wait_where_it_does_at_apache_kafka(apache: Side, sordini: Side) -> None:
    asked = list(all_asked(VERSIONS))
    complaints = _complaints(apache, sordini, lambda side: play(side.broker, asked, side.ids), DIFFERENCES)
    assert not complaints, "\n".join(["", *complaints])


@whole
@pytest.mark.parametrize(("version", "beside"), RECREATED)
def test_a_topic_that_is_deleted_and_made_again_answers_as_at_apache_kafka(
    apache: Side, sordini: Side, version: int, *, beside: bool
) -> None:
    def recreated(side: Side) -> Any:
        return made_again(side.broker, side.ids, version, beside=beside)

    complaints = _complaints(apache, sordini, recreated, MADE_AGAIN)
    assert not complaints, "\n".join(["", *complaints])


@pytest.mark.parametrize("talk", [conversions, segments])
def test_fewer_bytes_than_requested_end_the_wait_where_they_do_at_apache_kafka(
    apache: Side, sordini: Side, talk: Callable[..., Any]
) -> None:
    complaints = _complaints(apache, sordini, lambda side: talk(side.broker, side.ids), [])
    assert not complaints, "\n".join(["", *complaints])


@whole
def test_a_directory_that_fails_ends_the_wait_as_at_apache_kafka(apache: Side, sordini: Side) -> None:
    """The last one here: the partitions of that directory stay offline."""

    def failed(side: Side) -> Any:
        return failed_directory(side.broker, side.ids, side.directories)

    complaints = _complaints(apache, sordini, failed, [])
    assert not complaints, "\n".join(["", *complaints])
