"""Programs of the original clients as tests drive them: a producer, and members of one group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import Final, NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tests.cluster.cluster import Cluster
from tests.compat.groups.waiting import eventually
from tests.outside.needs import ROOT, kafka_jars, need_java
from tests.outside.versions import ORIGINAL_CLIENTS
from tests.support.wire_client import Client

SECONDS_MAX: Final = 150.0
ZOOKEEPER: Final = {"offsets.storage": "zookeeper"}
BOTH: Final = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}
KAFKA: Final = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}

MOVING: Final = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
"""What a coordinator answers while its group comes or goes."""

_PROGRAMS: Final = Path(__file__).with_name("programs")
_LOG4J: Final = ROOT / "tests" / "outside" / "log4j.properties"


class Message(NamedTuple):
    """What a member has read."""

    partition: int
    offset: int
    value: int


class Program:
    """One program with a JVM in it, that is told lines and answers with lines. `errors` is its log."""

    def __init__(self, module: str, orders: Mapping[str, object], errors: Path) -> None:
        need_java()
        jars = sorted(map(str, kafka_jars(ORIGINAL_CLIENTS).glob("*.jar")))
        arguments = json.dumps({**orders, "log4j": str(_LOG4J), "jars": jars})
        path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / ".import")])}
        self._errors = errors
        with errors.open("a") as written:
            self._process = subprocess.Popen(
                [sys.executable, str(_PROGRAMS / f"{module}.py"), arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=written,
                env=path,
                text=True,
                start_new_session=True,
            )

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)

    def answer(self) -> str:
        """Its next line. One that says nothing in SECONDS_MAX is killed, and the test fails with its log."""
        assert self._process.stdout is not None
        guard = threading.Timer(SECONDS_MAX, self._process.kill)
        guard.start()
        try:
            line = self._process.stdout.readline()
        finally:
            guard.cancel()
        assert line, f"it has ended, or said nothing in {SECONDS_MAX:g} s\n{self._errors.read_text()[-6_000:]}"
        return line.strip()

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        self._process.communicate()


class Producer(Program):
    """Sends numbers until it is told how many there shall be."""

    def __init__(self, directory: Path, cluster: Cluster, topic: str) -> None:
        super().__init__("producer", {"brokers": cluster.bootstrap, "topic": topic}, directory / "producer.txt")

    def finish(self, count_min: int) -> int:
        """How many it has sent in all, at least as many as wanted."""
        self.say(str(count_min))
        return int(json.loads(self.answer())["sent"])


class Member:
    """One member, which may be another program after a kill; its journal is the same."""

    def __init__(self, directory: Path, cluster: Cluster, topic: str, group: str, number: int) -> None:
        self._journal = directory / f"member-{number}.journal"
        self._errors = directory / f"member-{number}.txt"
        connect = cluster.tree.connect
        self._orders = {"zookeeper": connect, "group": group, "topic": topic, "journal": str(self._journal)}
        self._program = self._started()

    def _started(self) -> Program:
        return Program("member", self._orders, self._errors)

    def restart(self, settings: Mapping[str, object] | None, *, in_new_program: bool = False) -> None:
        """An orderly end of its consumer, if it has one, and a new one with other settings; None is the end only."""
        if in_new_program:
            self.restart(None)
            self.kill()
        self.begin(settings)
        self.wait()

    def hold(self) -> None:
        """Take nothing, with all that was taken committed, until `go`."""
        self.begin("hold")
        self.wait()

    def go(self) -> None:
        self.begin("go")
        self.wait()

    def begin(self, settings: Mapping[str, object] | str | None) -> None:
        self._program.say(json.dumps(settings))

    def wait(self) -> None:
        """Until what was begun is done."""
        assert self._program.answer() == "done"

    def kill(self) -> None:
        """kill -9; another program takes its place, without a consumer yet."""
        self._program.kill()
        self._program = self._started()

    def end(self) -> None:
        self._program.kill()

    def messages(self) -> list[Message]:
        """All that it has written down. The last line may be one that is being written, or that a kill cut off."""
        text = self._journal.read_text() if self._journal.exists() else ""
        lines = text.rpartition("\n")[0].splitlines()
        return [Message(*map(int, line.split(" "))) for line in lines]


class Group:
    """Two members of a group, and what it has committed where."""

    def __init__(self, directory: Path, cluster: Cluster, topic: str, common: Mapping[str, object]) -> None:
        """`common` are settings of all consumers. Restarts are of consumers, unless `restarts_programs` is set."""
        self.restarts_programs = False
        self.name = f"group-of-{topic}"
        self.members = [Member(directory, cluster, topic, self.name, number) for number in range(2)]
        self._common = dict(common)
        self._cluster = cluster
        self._topic = topic
        self._partitions = len(cluster.tree.assignment(topic))

    def close(self) -> None:
        for member in self.members:
            member.end()

    def start(self, settings: Mapping[str, object]) -> None:
        """Begin new consumers together; they take nothing before both have their partitions."""
        for member in self.members:
            member.hold()
        for member in self.members:
            member.begin({**self._common, **settings})
        for member in self.members:
            member.wait()
        self.shared_owners()
        for member in self.members:
            member.go()

    def restart(self, member: Member, settings: Mapping[str, object]) -> None:
        """Restart one member while the other one works: each may read again what the other has read."""
        member.restart({**self._common, **settings}, in_new_program=self.restarts_programs)

    def roll(self, settings: Mapping[str, object]) -> None:
        """Restart the members one after the other, with new settings, while the other one takes nothing."""
        for member, other in permutations(self.members):
            other.hold()
            self.restart(member, settings)
            self.shared_owners()
            other.go()

    def stop(self) -> None:
        for member in self.members:
            member.restart(None)

    def registered(self) -> list[str]:
        """The ids of its consumers."""
        return self._cluster.tree.children(f"/consumers/{self.name}/ids")

    def owners(self) -> dict[int, str]:
        """Which consumer's thread owns each partition."""
        tree, path = self._cluster.tree, f"/consumers/{self.name}/owners/{self._topic}"
        return {int(number): tree.text(f"{path}/{number}") or "" for number in tree.children(path)}

    def shared_owners(self) -> dict[int, str]:
        """The owners of all partitions, once both members have some."""
        found: dict[int, str] = {}

        def are_shared() -> bool:
            found.clear()
            found.update(self.owners())
            owners = {owner.rpartition("-")[0] for owner in found.values()}
            return len(found) == self._partitions and len(owners) == 2 and owners == set(self.registered())

        eventually(are_shared, "both members own partitions", SECONDS_MAX)
        return found

    def in_zookeeper(self) -> dict[int, int]:
        """The committed offsets there, by partition."""
        tree, path = self._cluster.tree, f"/consumers/{self.name}/offsets/{self._topic}"
        return {int(number): int(tree.text(f"{path}/{number}") or 0) for number in tree.children(path)}

    def in_kafka(self) -> dict[int, int]:
        found: dict[int, int] = {}

        def are_fetched() -> bool:
            answer = self._fetched()
            if answer is None or answer.error_code in MOVING:
                return False
            assert answer.error_code == 0
            found.update((one.partition_index, one.committed_offset) for row in answer.topics for one in row.partitions)
            return True

        eventually(are_fetched, f"a coordinator has {self.name}", SECONDS_MAX)
        return found

    def _fetched(self) -> OffsetFetchResponse | None:
        """Its coordinator's answer, if a coordinator is known. kafka-python keeps a former coordinator, and librdkafka crashes."""
        process = next(process for process in self._cluster.brokers.values() if process.is_running)
        with Client("127.0.0.1", process.port) as client:
            coordinator = client.ask(ApiKey.FIND_COORDINATOR, 0, FindCoordinatorRequest(key=self.name))
        if coordinator.error_code or not self._cluster.brokers[coordinator.node_id].is_running:
            return None
        with Client("127.0.0.1", coordinator.port) as client:
            request = OffsetFetchRequest(group_id=self.name, topics=None)
            answer: OffsetFetchResponse = client.ask(ApiKey.OFFSET_FETCH, 5, request)
            return answer

    def wait_for_commits(self, *, zookeeper: bool, kafka: bool) -> None:
        """Until the offset of every partition has grown where it should; where it should not, none has changed.

        Of every partition, since dual commit leaves out of ZooKeeper what has not changed since the member read it, be
        it from Kafka: a partition that stands still would be read again from ZooKeeper's old offset.
        """
        before = self._committed()
        wanted = {store for store, is_wanted in (("zookeeper", zookeeper), ("kafka", kafka)) if is_wanted}

        def have_grown() -> bool:
            now = self._committed()
            return all(
                now[store].get(number, 0) > before[store].get(number, 0)
                for store in wanted
                for number in range(self._partitions)
            )

        eventually(have_grown, f"the offsets of all partitions grow in {sorted(wanted)}", SECONDS_MAX)
        after = self._committed()
        assert {store for store in after if after[store] != before[store]} == wanted

    def _committed(self) -> dict[str, dict[int, int]]:
        return {"zookeeper": self.in_zookeeper(), "kafka": self.in_kafka()}

    def messages(self) -> list[Message]:
        return [message for member in self.members for message in member.messages()]

    def wait_for_messages(self) -> None:
        """Until more was read of every partition: the producer and a member know its present leader."""

        def counts() -> Counter[int]:
            return Counter(message.partition for message in self.messages())

        before = counts()

        def have_grown() -> bool:
            now = counts()
            return all(now[number] > before[number] for number in range(self._partitions))

        eventually(have_grown, "messages of every partition are read", SECONDS_MAX)

    def wait_for_values(self, count: int) -> None:
        """Until all of 0 ... count - 1 were read; a loss fails the test."""

        def missing() -> set[int]:
            return set(range(count)) - {message.value for message in self.messages()}

        eventually(lambda: not missing(), f"all of {count} are read", SECONDS_MAX)


@contextmanager
def at_work(
    directory: Path, cluster: Cluster, topic: str, common: Mapping[str, object]
) -> Iterator[tuple[Group, Producer]]:
    """A group whose members have no consumers yet, and a producer that sends already."""
    producer = Producer(directory, cluster, topic)
    try:
        group = Group(directory, cluster, topic, common)
        try:
            yield group, producer
        finally:
            group.close()
    finally:
        producer.kill()
