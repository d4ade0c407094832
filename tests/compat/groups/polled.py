"""Consumers of librdkafka that a test polls one after the other, and what their callbacks reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.compat.groups.members import Partition
from tests.compat.groups.waiting import eventually

QUICK_MEMBERS: dict[str, object] = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.assignment.interval.ms": 0,
}
"""Settings of a broker whose consumer groups take steps at once. Sessions are long: what ends soon does not wait for them."""
POLL_S = 0.02
TRANSIENT = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TIMED_OUT}
)
"""Errors that a consumer reports of a broker that is stopped, or a topic that is not created yet; it tries again."""


class PolledMember:
    """A member of a group. `owned` is by its callbacks; each record that it was given is in `read`."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], **settings: Any) -> None:
        self.owned: set[Partition] = set()
        self.changes: list[tuple[str, set[Partition]]] = []
        self.read: list[tuple[Partition, int]] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 300,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **settings,
            }
        )
        self.consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self) -> None:
        """Take what has arrived. No error but those of a broker that is stopped may be reported."""
        for message in self.consumer.consume(500, POLL_S):
            error = message.error()
            if error is None:
                self.read.append(((str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)))
            else:
                assert error.code() in TRANSIENT, error

    def ends(self) -> dict[Partition, int]:
        """The offset after the last record read, of each partition that was read."""
        return {partition: offset + 1 for partition, offset in self.read}

    def commit(self) -> None:
        """Commit all that was read of what is owned."""
        ends = self.ends()
        offsets = [TopicPartition(*partition, ends[partition]) for partition in self.owned & ends.keys()]
        if offsets:
            self.consumer.commit(offsets=offsets, asynchronous=False)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("assigned", partitions)
        self.owned |= {(partition.topic, partition.partition) for partition in partitions}

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("revoked", partitions)
        self.owned -= {(partition.topic, partition.partition) for partition in partitions}

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("lost", partitions)
        self.owned -= {(partition.topic, partition.partition) for partition in partitions}

    def _note(self, change: str, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.changes.append((change, {(partition.topic, partition.partition) for partition in partitions}))


class Group:
    """The members of one group that a test has started."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.members: list[PolledMember] = []

    def join(self, *topics: str, **settings: Any) -> PolledMember:
        """Start a member."""
        member = PolledMember(self.bootstrap, self.name, topics, **settings)
        self.members.append(member)
        return member

    def leave(self, member: PolledMember) -> None:
        self.members.remove(member)
        member.consumer.close()

    def until(self, condition: Callable[[], bool], sentence: str, seconds: float = 20) -> None:
        """Poll every member until `condition` holds; `sentence` completes "it did not happen that"."""

        def is_met() -> bool:
            for member in self.members:
                member.poll()
            return condition()

        eventually(is_met, sentence, seconds)

    def until_shared(self, *sizes: int) -> None:
        """Poll until the members own that many partitions, in the order of their start."""
        self.until(lambda: [len(member.owned) for member in self.members] == list(sizes), f"they own {sizes}")

    def committed(self, *partitions: Partition) -> list[int]:
        asked = [TopicPartition(*partition) for partition in partitions]
        return [found.offset for found in self.members[0].consumer.committed(asked, timeout=15)]


@contextmanager
def polled_group(bootstrap: str, name: str) -> Iterator[Group]:
    """A group whose members are closed in the end."""
    group = Group(bootstrap, name)
    with ExitStack() as opened:
        opened.callback(lambda: [member.consumer.close() for member in group.members])
        yield group
