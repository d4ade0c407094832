"""Assignments in a group: shares by the range rule, members left over, one group and many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.compat.groups.member import Settings
from tests.compat.groups.members import MemberProcess, await_shared

MakeTopic = Callable[..., str]
Start = Callable[..., MemberProcess]

KINDS = ("kafka-python", "confluent", "aiokafka")
PATIENCE_S = 30


@pytest.fixture
def launch(bootstrap: str, tmp_path: Path) -> Iterator[Start]:
    """`launch("confluent", topic, group, members=3)` starts members in one process; the test's end stops them."""
    launched: list[MemberProcess] = []

    def start(kind: str, topic: str, group: str, members: int = 1) -> MemberProcess:
        name = f"{kind}-{len(launched)}"
        settings = Settings(kind=kind, name=name, bootstrap=bootstrap, group=group, topic=topic, members=members)
        launched.append(MemberProcess(tmp_path / name, settings))
        launched[-1].launch()
        return launched[-1]

    yield start
    for process in launched:
        process.kill()


def shares(process: MemberProcess) -> list[list[int]]:
    return sorted(sorted(index for _, index in owned) for owned in process.owned().values())


def offsets_read(process: MemberProcess) -> list[tuple[int, int]]:
    """Partition and offset of every record that any of its members has read, as often as it was."""
    return sorted((run.partition[1], offset) for run in process.runs() for offset in range(run.first, run.end))


def test_a_range_is_cut_into_shares_of_neighbours_the_first_of_them_larger(
    launch: Start, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=7)
    groups = [launch(kind, topic, f"{topic}-{kind}", members=3) for kind in KINDS]
    for process in groups:
        await_shared([process], [(topic, index) for index in range(7)])
        assert shares(process) == [[0, 1, 2], [3, 4], [5, 6]]


def test_members_beyond_the_number_of_partitions_have_none(launch: Start, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    groups = [launch(kind, topic, f"{topic}-{kind}", members=3) for kind in KINDS]
    for process in groups:
        await_shared([process], [(topic, index) for index in range(2)])
        assert shares(process) == [[], [0], [1]]


def test_one_group_shares_the_records_and_groups_of_their_own_have_all_of_them(
    bootstrap: str, launch: Start, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=4)
    queue = launch("confluent", topic, f"{topic}-queue", members=2)
    await_shared([queue], [(topic, index) for index in range(4)])
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(40):
            producer.send(topic, b"%d" % number, partition=number % 4)
        producer.flush(timeout=15)
    readers = [launch(kind, topic, f"{topic}-{kind}") for kind in KINDS]
    everything = [(index, offset) for index in range(4) for offset in range(10)]
    for process in (queue, *readers):
        process.wait_until(lambda process=process: len(offsets_read(process)) >= 40, PATIENCE_S, "read all records")
        assert offsets_read(process) == everything
    readers_of = {run.partition: run.member for run in queue.runs()}
    assert sorted(readers_of.values()) == sorted([f"{queue.settings.name}-{number}" for number in (0, 1)] * 2)
