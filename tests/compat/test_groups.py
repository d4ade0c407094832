"""Groups of real clients: who owns what as members come, leave, die and return.

Every client library forms a group of its own, all at once: most of the time is spent waiting, and they do that
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.compat.groups.member import Settings
from tests.compat.groups.members import MemberProcess, Partition, await_shared

MakeTopic = Callable[..., str]
Start = Callable[..., MemberProcess]

CLIENTS = [
    ("kafka-python", "range"),
    ("kafka-python", "cooperative-sticky"),
    ("aiokafka", "roundrobin"),
    ("confluent", "range"),
    ("confluent", "cooperative-sticky"),
]
SESSION_TIMEOUT_MS = 2_000


@pytest.fixture
def launch(bootstrap: str, tmp_path: Path) -> Iterator[Start]:
    """`launch(client, "a", topic)` starts a member of that client's group; the test's end stops it."""
    launched: list[MemberProcess] = []

    def start(client: tuple[str, str], name: str, topic: str, **settings: object) -> MemberProcess:
        kind, assignor = client
        group = f"{topic}-{kind}-{assignor}"
        common = {"session_timeout_ms": SESSION_TIMEOUT_MS, "kind": kind, "assignor": assignor}
        chosen = {**common, "bootstrap": bootstrap, "group": group, "topic": topic, **settings}
        process = MemberProcess(tmp_path / f"{len(launched)}", Settings(name=name, **chosen))
        launched.append(process)
        process.launch()
        return process

    yield start
    for process in launched:
        process.kill()  # How a member leaves is what tests are about; the end of a test need not wait for it.


def partitions_of(topic: str, count: int) -> list[Partition]:
    return [(topic, partition) for partition in range(count)]


def test_members_share_the_partitions_as_they_come_leave_and_die(launch: Start, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=6)
    groups = {client: [launch(client, "a", topic)] for client in CLIENTS}

    def all_shared() -> None:
        for members in groups.values():
            await_shared(members, partitions_of(topic, 6))

    all_shared()
    for name in ("b", "c"):
        for client, members in groups.items():
            members.append(launch(client, name, topic))
        all_shared()
    for members in groups.values():
        members.pop(1).terminate()
    all_shared()
    for members in groups.values():
        members.pop(0).kill()  # The first to come leads the group, and says no good-bye.
    all_shared()


def test_a_static_member_returns_without_disturbing_the_others(launch: Start, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=6)
    static = {"session_timeout_ms": 60_000}  # Nobody expires while away.
    groups = {
        client: [launch(client, name, topic, instance_id=f"instance-{name}", **static) for name in "ab"]
        for client in CLIENTS
    }
    for members in groups.values():
        await_shared(members, partitions_of(topic, 6))
    for returning, staying in ((0, 1), (1, 0)):  # One of the two is the leader.
        before = {client: [member.owned() for member in members] for client, members in groups.items()}
        reported = {client: len(members[staying].events()) for client, members in groups.items()}
        for client, members in groups.items():
            members[returning].kill()
            name = "ab"[returning]
            members[returning] = launch(client, name, topic, instance_id=f"instance-{name}", **static)
        for client, members in groups.items():
            members[returning].wait_until(members[returning].is_ready, 20, "be given what it had")
            assert [member.owned() for member in members] == before[client], client
            assert len(members[staying].events()) == reported[client], f"{client}: the other member was rebalanced"


def test_a_pattern_finds_topics_that_come_later(launch: Start, admin: KafkaAdminClient, topic: str) -> None:
    groups = {client: launch(client, "a", f"{topic}-", pattern=True) for client in CLIENTS}
    found: list[Partition] = []
    for suffix, count in (("first", 2), ("second", 3)):
        shape = {"num_partitions": count, "replication_factor": 1}
        admin.create_topics({f"{topic}-{suffix}": shape}, wait_for_metadata=True)
        found += partitions_of(f"{topic}-{suffix}", count)
        for member in groups.values():
            await_shared([member], found)
