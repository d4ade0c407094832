"""A prepared transaction survives the program that wrote it: another one ends it by producer id and epoch alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.broker.coordinators.partitioning import partition_for
from sordini.protocol.errors import ErrorCode
from tests.cluster.cluster import Cluster, Partition
from tests.cluster.loads import read_all
from tests.exactly_once.judge import ASSIGNMENT, SAFE
from tests.exactly_once.two_phases import Orders, Prepared, Preparing, begin, end, end_on
from tests.outside.processes import SordiniProcess
from tests.support.wire_client import Client

VALUES = {"0": ["a", "b"], "1": ["c"], "2": ["d"]}
STATE = "__transaction_state"


def prepared_and_killed(bootstrap: str, topic: str, directory: Path) -> Prepared:
    """A transaction of all VALUES, whose program was ended by kill -9 when it was prepared."""
    with Preparing(directory, Orders(bootstrap, f"{topic}-id", topic, VALUES)) as program:
        program.kill()
        return program.prepared


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> dict[str, list[str]]:
    partitions: list[Partition] = [(topic, int(number)) for number in VALUES]
    found = read_all(bootstrap, partitions, isolation)
    return {str(number): [value.decode() for _, value in rows] for (_, number), rows in found.items()}


NOTHING: dict[str, list[str]] = {number: [] for number in VALUES}


@pytest.fixture
def broker(start_sordini: Callable[..., SordiniProcess], topic: str) -> SordiniProcess:
    process = start_sordini()
    with Client("127.0.0.1", process.port) as client:
        assert client.create(topic, partitions=len(VALUES)) == [0]
    return process


def test_a_prepared_transaction_is_committed_by_another_program(
    broker: SordiniProcess, topic: str, tmp_path: Path
) -> None:
    prepared = prepared_and_killed(broker.bootstrap, topic, tmp_path)
    assert read(broker.bootstrap, topic) == NOTHING
    assert read(broker.bootstrap, topic, "read_uncommitted") == VALUES
    assert end(broker.bootstrap, prepared, commit=True) == 0
    assert read(broker.bootstrap, topic) == VALUES
    assert end(broker.bootstrap, prepared, commit=True) == 0, "a commit may be sent again after a restart"
    assert end(broker.bootstrap, prepared, commit=False) == ErrorCode.INVALID_TXN_STATE
    assert read(broker.bootstrap, topic) == VALUES


def test_a_prepared_transaction_outlives_kills_of_its_coordinator(
    broker: SordiniProcess, topic: str, tmp_path: Path
) -> None:
    prepared = prepared_and_killed(broker.bootstrap, topic, tmp_path)
    broker.kill()
    broker.start()
    assert read(broker.bootstrap, topic) == NOTHING
    assert end(broker.bootstrap, prepared, commit=True) == 0
    broker.kill()
    broker.start()
    assert end(broker.bootstrap, prepared, commit=True) == 0
    assert read(broker.bootstrap, topic) == VALUES


def test_a_connection_older_than_the_writer_s_ends_nothing_and_a_new_one_does(
    broker: SordiniProcess, topic: str, tmp_path: Path
) -> None:
    with Client("127.0.0.1", broker.port) as older:
        older.metadata(topic)
        prepared = prepared_and_killed(broker.bootstrap, topic, tmp_path)
        with pytest.raises(ConnectionError):
            end_on(older, prepared, commit=True)
    assert read(broker.bootstrap, topic) == NOTHING
    assert end(broker.bootstrap, prepared, commit=True) == 0
    assert read(broker.bootstrap, topic) == VALUES


def test_a_prepared_transaction_is_aborted_by_the_next_producer_of_its_id(
    broker: SordiniProcess, topic: str, tmp_path: Path
) -> None:
    prepared = prepared_and_killed(broker.bootstrap, topic, tmp_path)
    successor = begin(broker.bootstrap, prepared.transactional_id)
    assert (successor.producer_id, successor.epoch > prepared.epoch) == (prepared.producer_id, True)
    assert end(broker.bootstrap, prepared, commit=True) in {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
    assert read(broker.bootstrap, topic) == NOTHING


def test_a_prepared_transaction_is_ended_by_the_next_coordinator(three: Cluster, topic: str, tmp_path: Path) -> None:
    three.wait_until_known(three.create(topic, ASSIGNMENT, SAFE))
    prepared = prepared_and_killed(three.bootstrap, topic, tmp_path)
    number = partition_for(prepared.transactional_id, len(three.tree.assignment(STATE)))
    coordinator = three.leader((STATE, number))
    three.kill(coordinator)
    three.wait(lambda: three.leader((STATE, number)) not in {coordinator, -1}, "another broker is the coordinator")
    assert end(three.bootstrap, prepared, commit=True) == 0
    three.restart(coordinator)
    assert end(three.bootstrap, prepared, commit=True) == 0
    assert read(three.bootstrap, topic) == VALUES
