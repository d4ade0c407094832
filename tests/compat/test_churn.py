"""Fifty members of three client libraries in one group that come, go and are killed, all at once.

Everything said about the group passes a recorder (groups/recorder.py); afterwards the laws (groups/laws.py) are
checked against all of it. `SORDINI_CHURN_STEPS` makes the schedule longer, `SORDINI_CHURN_SEED` another one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from tests.compat.groups.laws import accepted_offsets, broken_laws, wrong_reads
from tests.compat.groups.member import Settings
from tests.compat.groups.members import MemberProcess, await_shared
from tests.compat.groups.recorder import Recorder
from tests.compat.situations.definitions import Definitions
from tests.outside.needs import kafka_clients_jar
from tests.outside.ports import free_port
from tests.outside.processes import BrokerProcess
from tests.outside.versions import NEWEST_APACHE_KAFKA

KINDS = ("confluent", "kafka-python", "aiokafka")
PROCESSES = 10
MEMBERS_EACH = 5
PARTITIONS = 60
SESSION_TIMEOUT_MS = 3_000
GROUP, TOPIC = "churn", "churned"
STEPS = int(os.environ.get("SORDINI_CHURN_STEPS", "4"))
SEED = int(os.environ.get("SORDINI_CHURN_SEED", "1"))

StartBroker = Callable[[dict[str, object]], BrokerProcess]


@pytest.fixture
def recorder(start_broker: StartBroker) -> Iterator[Recorder]:
    port = free_port()
    broker = start_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    with Recorder(port, broker.port, Definitions(kafka_clients_jar(NEWEST_APACHE_KAFKA))) as recorder:
        yield recorder


class Crowd:
    """The processes of members: those that live now, and all there ever were."""

    def __init__(self, directory: Path, bootstrap: str, choose: Random) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._choose = choose
        self.alive: list[MemberProcess] = []
        self.all_members: list[MemberProcess] = []

    def fill(self) -> None:
        """Start processes until there are as many as there should be."""
        while len(self.alive) < PROCESSES:
            number = len(self.all_members)
            settings = Settings(
                kind=KINDS[number % len(KINDS)],
                name=f"{KINDS[number % len(KINDS)]}-{number}",
                bootstrap=self._bootstrap,
                group=GROUP,
                topic=TOPIC,
                members=MEMBERS_EACH,
                session_timeout_ms=SESSION_TIMEOUT_MS,
            )
            process = MemberProcess(self._directory, settings)
            process.launch()
            self.alive.append(process)
            self.all_members.append(process)

    def lose_some(self) -> None:
        """One or two processes are killed, or stopped by a signal."""
        for process in self._choose.sample(self.alive, self._choose.choice((1, 2))):
            if self._choose.random() < 0.4:
                process.kill()
            else:
                process.terminate()
            self.alive.remove(process)

    def stop(self) -> None:
        for process in self.all_members:
            process.kill()


@contextmanager
def crowd_of(directory: Path, bootstrap: str, choose: Random) -> Iterator[Crowd]:
    crowd = Crowd(directory, bootstrap, choose)
    try:
        yield crowd
    finally:
        crowd.stop()


class Feed:
    """Records for every partition, counted."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self.ends = {(TOPIC, partition): 0 for partition in range(PARTITIONS)}

    def send(self, each: int) -> None:
        for topic, partition in self.ends:
            for _ in range(each):
                self._producer.send(topic, b"churn", partition=partition)
            self.ends[topic, partition] += each
        self._producer.flush(timeout=20)

    def close(self) -> None:
        self._producer.close()


def test_every_partition_always_gets_one_owner_and_no_live_member_is_unknown(
    recorder: Recorder, tmp_path: Path
) -> None:
    bootstrap, choose = f"127.0.0.1:{recorder.port}", Random(SEED)
    with ExitStack() as stack:
        admin = stack.enter_context(closing(KafkaAdminClient(bootstrap_servers=bootstrap)))
        shape = {"num_partitions": PARTITIONS, "replication_factor": 1}
        admin.create_topics({TOPIC: shape}, wait_for_metadata=True)
        feed = stack.enter_context(closing(Feed(bootstrap)))
        crowd = stack.enter_context(crowd_of(tmp_path, bootstrap, choose))
        crowd.fill()
        feed.send(5)
        every_partition = sorted(feed.ends)
        await_shared(crowd.alive, every_partition, seconds=60)
        rests = 1
        for _ in range(STEPS):
            crowd.lose_some()
            feed.send(5)
            time.sleep(choose.uniform(0, 1))  # Not for anything to happen: that the blows fall at different moments.
            crowd.fill()
            feed.send(5)
            if choose.random() < 0.4:
                await_shared(crowd.alive, every_partition, seconds=60)
                rests += 1
        await_shared(crowd.alive, every_partition, seconds=60)
        feed.send(5)
        crowd.alive[0].wait_until(lambda: committed_ends(admin) == feed.ends, 20, "commit everything with the others")
        (described,) = admin.describe_groups([GROUP]).values()
        assert (described["group_state"], len(described["members"])) == ("Stable", PROCESSES * MEMBERS_EACH)
    exchanges = recorder.exchanges()
    unanswered = recorder.unanswered()
    assert broken_laws(exchanges, TOPIC, PARTITIONS, SESSION_TIMEOUT_MS / 1_000, unanswered) == []
    runs = [run for process in crowd.all_members for run in process.runs()]
    assert list(wrong_reads(runs, accepted_offsets(exchanges, TOPIC, unanswered), feed.ends)) == []
    generations = [one.answer["generation_id"] for one in exchanges if one.api == "JoinGroup"]
    assert max(generations) > rests, "the schedule caused no rebalance"


def committed_ends(admin: KafkaAdminClient) -> dict[tuple[str, int], int]:
    found = admin.list_group_offsets({GROUP: None})[GROUP]
    return {(partition.topic, partition.partition): offset.offset for partition, offset in found.items()}
