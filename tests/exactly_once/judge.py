"""A run: programs copy what a feeder writes, while brokers and programs are killed; then everything is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.cluster.cluster import Cluster, Partition
from tests.cluster.history import History, broken_transactions
from tests.cluster.loads import Reader, Transactor, consumer, read_all
from tests.exactly_once.checker import Ending, Evidence, violations
from tests.exactly_once.programs import Program, Supervisor
from tests.exactly_once.schedule import Kill
from tests.exactly_once.views import Copies, Rows, View

BROKERS: Final = (1, 2, 3)
ASSIGNMENT: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
SAFE: Final = {"min.insync.replicas": "2"}
SETTINGS: Final[dict[str, object]] = {
    "zookeeper.session.timeout.ms": 2_000,
    "group.min.session.timeout.ms": 1_000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}
SECONDS_MAX: Final = 120.0
"""How long it may take until anything more is copied: sessions and transactions of killed programs have to end first."""

OPEN_SECONDS_MAX: Final = 45.0
"""Longer than the transaction timeout of any program but the job, which leaves none open when it is stopped."""
_POLL_SECONDS: Final = 0.2


class Topics(NamedTuple):
    """Where the programs read and write; both have a partition for each broker. Without a group no offsets are checked."""

    source: str
    sink: str
    group: str


def made(cluster: Cluster, name: str) -> Topics:
    """Create source and sink, with three replicas each."""
    topics = Topics(f"{name}-source", f"{name}-sink", f"{name}-group")
    for topic in topics[:2]:
        cluster.wait_until_known(cluster.create(topic, ASSIGNMENT, SAFE))
    return topics


def partitions_of(topic: str) -> list[Partition]:
    return [(topic, number) for number in range(len(ASSIGNMENT))]


class Judged(NamedTuple):
    """What came of a run. `source_problems` are those of the feeder's own transactions."""

    evidence: Evidence
    source_problems: list[str]
    inputs: int
    transactions: int
    ended_by_themselves: list[str]

    def __str__(self) -> str:
        ended = "".join(f"\n  {line}" for line in self.ended_by_themselves)
        known = f", {self.transactions} transactions" if self.transactions > 1 else ""
        return f"{self.inputs} inputs{known}{ended}"


class Judge:
    """One run on a cluster."""

    def __init__(self, cluster: Cluster, topics: Topics, programs: Sequence[Program], view: View) -> None:
        self._cluster = cluster
        self._topics = topics
        self._supervisor = Supervisor(programs)
        self._view = view
        self._history = History()
        self._feeder = Transactor(cluster.bootstrap, partitions_of(topics.source), self._history, topics.source)
        self._watcher = Reader(cluster.bootstrap, partitions_of(topics.sink), "read_committed")

    def run(self, kills: Iterable[Kill]) -> Judged:
        """Feed, kill, let everything be copied, stop in order, and gather the evidence."""
        with ExitStack() as stack:
            stack.callback(self._supervisor.kill_all)
            with self._watcher:
                with self._feeder:
                    self._supervisor.revive()
                    for kill in kills:
                        self._wait_for_more(kill.after)
                        self._kill(kill)
                    self._wait_for_more(1)
                inputs = read_all(self._cluster.bootstrap, partitions_of(self._topics.source), "read_committed")
                wanted = sum(map(len, inputs.values()))
                while self._arrived() < wanted:
                    self._wait_for_more(1)
                self._supervisor.stop()
        return self._judged(inputs)

    def _kill(self, kill: Kill) -> None:
        if not kill.is_broker:
            self._supervisor.kill(kill.victim)
            return
        cluster = self._cluster
        cluster.kill(kill.victim)
        # The other brokers lead without it, in newer leader epochs, before it is started again.
        self._wait_for(lambda: kill.victim not in cluster.tree.registered(), f"broker {kill.victim} is forgotten")
        self._wait_for_more(1)
        cluster.restart(kill.victim)
        self._wait_for(lambda: not cluster.under_replicated(), "no partition is under-replicated")

    def _arrived(self) -> int:
        return sum(map(len, list(self._watcher.seen.values())))

    def _wait_for_more(self, records: int) -> None:
        wanted = self._arrived() + records
        self._wait_for(lambda: self._arrived() >= wanted, f"{records} more records are in the sink")

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            self._supervisor.revive()
            for worker in (self._feeder, self._watcher):
                assert not worker.has_failed, f"{type(worker).__name__} has failed"
            return condition()

        try:
            self._cluster.wait(is_so, what, SECONDS_MAX)
        except AssertionError as problem:
            tails = [program.tail() for program in self._supervisor.programs]
            raise AssertionError("\n".join([str(problem), *tails])) from None

    def _judged(self, inputs: Rows) -> Judged:
        left_open = self._left_open()
        outputs = read_all(self._cluster.bootstrap, partitions_of(self._topics.sink), "read_committed")
        endings: dict[str, Ending] = {}
        for program in self._supervisor.programs:
            endings.update(program.endings())
        evidence = Evidence(
            self._view.inputs(inputs),
            self._view.outputs(outputs),
            [self._view.outputs(self._watcher.seen)],
            endings,
            self._unread(inputs),
            [f"{topic}-{number}" for topic, number in left_open],
        )
        problems = broken_transactions(self._history, inputs)
        count = len({one.by for lane in evidence.outputs.values() for one in lane})
        total = sum(map(len, inputs.values()))
        return Judged(evidence, problems, total, count, self._supervisor.ended_by_themselves)

    def _unread(self, inputs: Rows) -> dict[str, int]:
        """Records at or after the group's offsets."""
        if not self._topics.group:
            return {}
        asked = ConsumerGroupTopicPartitions(self._topics.group, [TopicPartition(*one) for one in inputs])
        [answer] = self._cluster.admin.list_consumer_group_offsets([asked], require_stable=True).values()
        found = {one.partition: one.offset for one in answer.result(SECONDS_MAX).topic_partitions}
        return {str(number): sum(offset >= found[number] for offset, _ in rows) for (_, number), rows in inputs.items()}

    def _left_open(self) -> list[Partition]:
        """Partitions with a transaction that is open for longer than its timeout; a program may end badly at the end."""
        deadline = time.monotonic() + OPEN_SECONDS_MAX
        while (found := self._open()) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return found

    def _open(self) -> list[Partition]:
        """Partitions whose last stable offset is before the end."""
        both = [consumer(self._cluster.bootstrap, isolation) for isolation in ("read_committed", "read_uncommitted")]
        topics = (self._topics.source, self._topics.sink)
        try:
            return [
                one
                for topic in topics
                for one in partitions_of(topic)
                if len({reader.get_watermark_offsets(TopicPartition(*one))[1] for reader in both}) > 1
            ]
        finally:
            for reader in both:
                reader.close()


def judge(
    cluster: Cluster, topics: Topics, programs: Sequence[Program], kills: Sequence[Kill], view: View | None = None
) -> None:
    """Run programs under kills and check every law."""
    judged = Judge(cluster, topics, programs, view or Copies()).run(kills)
    print(f"{topics.sink}: {judged}, {len(kills)} kills")  # noqa: T201  # With -s, what a run came to.
    assert judged.source_problems == []
    assert violations(judged.evidence) == []
