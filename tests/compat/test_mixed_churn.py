"""Members of both protocols in one group: they start, stop and are killed, and so is the broker, all by a seed.

Afterwards each record was read at least once, and no commit that was accepted sets a partition back: a partition with
two owners would have one. Between the blows the members are waited for: none is left without its share.
`SORDINI_MIXED_CHURN_S` is how long it lasts, `SORDINI_MIXED_CHURN_SEED` another schedule; `make churn` has ten minutes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.groups.commits import Commit, accepted_commits, set_back
from tests.compat.groups.member import Settings
from tests.compat.groups.members import MemberProcess, Partition, await_shared
from tests.compat.groups.polled import QUICK_MEMBERS
from tests.compat.groups.waiting import eventually
from tests.outside.processes import BrokerProcess

SECONDS = float(os.environ.get("SORDINI_MIXED_CHURN_S", "6"))
SEED = int(os.environ.get("SORDINI_MIXED_CHURN_SEED", "1"))
IS_LONG = SECONDS > 60
PROCESSES, MEMBERS_EACH = (10, 2) if IS_LONG else (5, 2)
TOPIC, GROUP = "churned", "mixed"
PARTITIONS = [(TOPIC, partition) for partition in range(24)]
RECORDS_EACH = 20
SESSION_TIMEOUT_MS = 3_000
PATIENCE_S = 2 * SESSION_TIMEOUT_MS / 1_000 + 24
"""Two sessions of members that were killed, and the start of programs on a busy machine."""
FLUSH_S = 30
StartBroker = Callable[[dict[str, object]], BrokerProcess]


class Churn:
    """The group's processes, and what was sent for them to read."""

    def __init__(self, directory: Path, broker: BrokerProcess, choose: Random) -> None:
        self._directory = directory
        self._broker = broker
        self._choose = choose
        self._numbers = count()
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 0})
        self.running: list[MemberProcess] = []
        self.everyone: list[MemberProcess] = []
        self.end = 0
        self.blows: list[str] = []
        self.longest_wait_s = 0.0

    def fill(self, processes: int = PROCESSES) -> None:
        """Start members of either protocol until there are as many as there should be."""
        while len(self.running) < processes:
            protocol = self._choose.choice(("classic", "consumer"))
            settings = Settings(
                kind="confluent",
                name=f"{protocol}-{next(self._numbers)}",
                bootstrap=self._broker.bootstrap,
                group=GROUP,
                topic=TOPIC,
                members=MEMBERS_EACH,
                protocol=protocol,
                session_timeout_ms=SESSION_TIMEOUT_MS,
            )
            process = MemberProcess(self._directory, settings)
            process.launch()
            self.running.append(process)
            self.everyone.append(process)

    def send(self) -> None:
        for topic, partition in PARTITIONS:
            for _ in range(RECORDS_EACH):
                self._producer.produce(topic, b"churn", partition=partition, on_delivery=_is_stored)
        assert self._producer.flush(FLUSH_S) == 0
        self.end += RECORDS_EACH

    def strike(self) -> None:
        """Do something that happens to services, without a wait for its effects."""
        blow = self._choose.choice(("kill", "stop", "hang", "hang", "broker"))
        self.blows.append(blow)
        match blow:
            case "hang":  # Others read what it had if its session ends, and must not before.
                hanging = self._lose_one()
                with hanging.hung():
                    self._lose_one().terminate()
                    self.fill(PROCESSES - 1)
                    self.send()
                    time.sleep(self._choose.uniform(0.5, 1.5 * SESSION_TIMEOUT_MS / 1_000))
                self.running.append(hanging)
            case "kill":
                self._lose_one().kill()
            case "stop":
                self._lose_one().terminate()
            case "broker":
                self._broker.kill()
                self._broker.start()
        self.fill()

    def await_all_read(self) -> None:
        """Every live member has its share, and everything that was sent is read and committed."""
        started = time.monotonic()
        await_shared(self.running, PARTITIONS, PATIENCE_S)
        expected = dict.fromkeys(PARTITIONS, self.end)
        self.running[0].wait_until(
            lambda: self._committed() == expected, PATIENCE_S, "commit everything with the others"
        )
        self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - started)

    def never_read(self) -> set[tuple[Partition, int]]:
        runs = [run for process in self.everyone for run in process.runs()]
        read = {(run.partition, offset) for run in runs for offset in range(run.first, run.end)}
        return {(partition, offset) for partition in PARTITIONS for offset in range(self.end)} - read

    def close(self) -> None:
        for process in self.everyone:
            process.kill()

    def _committed(self) -> dict[Partition, int]:
        # A new client each time: librdkafka 2.16 asks the coordinator of before the broker was killed for ever.
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 0})
        asked = [ConsumerGroupTopicPartitions(GROUP)]
        found = admin.list_consumer_group_offsets(asked)[GROUP].result(FLUSH_S)
        return {(row.topic, row.partition): row.offset for row in found.topic_partitions}

    def _lose_one(self) -> MemberProcess:
        return self.running.pop(self._choose.randrange(len(self.running)))


def _is_stored(error: Any, _: Any) -> None:
    assert error is None, error


@pytest.fixture
def broker(start_broker: StartBroker, request: pytest.FixtureRequest) -> BrokerProcess:
    if request.config.getoption("--broker") == "apache":
        pytest.skip("Apache Kafka 3.9 with ZooKeeper has no consumer groups of this kind")
    sessions = {"group.consumer.session.timeout.ms": SESSION_TIMEOUT_MS, "offsets.topic.num.partitions": 1}
    return start_broker(QUICK_MEMBERS | sessions)


@pytest.fixture
def churn(broker: BrokerProcess, tmp_path: Path) -> Iterator[Churn]:
    with closing(Churn(tmp_path, broker, Random(SEED))) as churn:
        yield churn


def test_members_of_both_protocols_read_everything_and_no_commit_sets_a_partition_back(
    broker: BrokerProcess, churn: Churn
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, len(PARTITIONS), 1)])[TOPIC].result(FLUSH_S)
    churn.fill()
    churn.send()
    churn.await_all_read()
    choose, deadline = Random(SEED), time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for _ in range(choose.randrange(1, 4)):
            churn.strike()
            churn.send()
        churn.await_all_read()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def has_settled() -> bool:
        described = admin.describe_consumer_groups([GROUP])[GROUP].result(FLUSH_S)
        return (described.state, len(described.members)) == (ConsumerGroupState.STABLE, PROCESSES * MEMBERS_EACH)

    eventually(has_settled, "every member reaches the last epoch, and those that were killed are removed")
    assert churn.never_read() == set()
    commits = accepted_commits(broker.bootstrap, GROUP)
    assert len(commits) > len(PARTITIONS)
    assert set_back(commits) == []
    if IS_LONG:
        sys.stdout.write(
            f"{len(churn.blows)} blows, {len(commits)} commits, longest wait {churn.longest_wait_s:.1f} s\n"
        )


def test_a_commit_behind_a_later_one_of_the_same_partition_is_found() -> None:
    first, second = (TOPIC, 0), (TOPIC, 1)
    late = Commit(first, 5)
    assert set_back([Commit(first, 5), Commit(second, 3), late, Commit(first, 9), late]) == [(late, 9)]
