"""Conversations of transactional producers whose steps are chosen by a seed.

Four clients share two transactional ids, so that they fence each other, and write to two partitions and to a group.
After each step that ends a transaction its markers are waited for, so that every answer is certain.
"""

import random
from collections.abc import Callable
from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.fetch import fetch
from tests.compat.situations.members import Group
from tests.compat.situations.producers import Producer, at, settled
from tests.compat.situations.registry import KRAFT, situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

SEEDS = range(8)
NEWEST_SEEDS = range(8, 12)
"""Those that the newest Apache Kafka judges."""
STEPS = 60

_OFTEN = {"add": 5, "add offsets": 3, "commit offsets": 4, "send": 8, "end": 3}
"""How often some steps are taken, for one of any other."""


class _Conversation:
    """One conversation: `play` takes its steps, each of which is a method, and returns the answers."""

    def __init__(self, broker: Broker, seed: int) -> None:
        name = f"chance-{seed}"
        self._broker = broker
        self._chance = random.Random(seed)
        self._topic = broker.create_led(name, partitions=2)
        self._group = Group(broker, name)
        self._clients = [Producer(broker, f"{name}-{index // 2}") for index in range(4)]
        self._steps: dict[str, Callable[[Producer], Any]] = {
            "init": self._init,
            "raise": self._raise,
            "add": self._add,
            "add offsets": self._add_offsets,
            "commit offsets": self._commit_offsets,
            "overtake": self._overtake,
            "send": self._send,
            "end": self._end,
            "plain": self._plain,
            "delete": self._delete,
            "describe": self._describe,
            "fetch": self._fetch,
            "list": self._list,
        }
        self._names = [name for name in self._steps for _ in range(_OFTEN.get(name, 1))]
        self._newest: dict[str, Producer] = {}
        """By transactional id, the client that is not fenced."""

    def play(self) -> dict[str, Any]:
        seen = {}
        for number in range(STEPS):
            newest = list(self._newest.values())
            client = self._chance.choice(newest if newest and self._chance.random() < 0.7 else self._clients)
            name = self._chance.choice(self._names) if client.producer_id >= 0 else "init"
            seen[f"{number} {name} by {self._clients.index(client)}"] = self._steps[name](client)
        for client in self._clients:
            client.init_after()
        return seen | {"in the end": [self._read(), [settled(self._group, self._topic, index) for index in (0, 1)]]}

    def _partition(self) -> int:
        return self._chance.randrange(2)

    def _quiet(self, client: Producer) -> Any:
        """Once no marker is missing; the next connection is newer than they are (docs/delayed-requests.md)."""
        seen = until(client.describe, lambda answer: not answer["transaction_state"].startswith("Prepare"))
        self._broker.close()
        return seen

    def _init(self, client: Producer) -> Any:
        return self._begun(client, client.init(self._chance.randrange(6)))

    def _begun(self, client: Producer, answer: Any) -> Any:
        self._quiet(client)
        if answer["error_code"] == 0:
            self._newest[client.id] = client
        return answer

    def _raise(self, client: Producer) -> Any:
        """With the client's id and epoch, unless the epoch is not compared (`transaction_differences.py`)."""
        present = self._quiet(client)
        if present["transaction_state"] == "Ongoing" and present["producer_epoch"] != client.epoch:
            return "no question"
        own = {"producer_id": client.producer_id, "producer_epoch": client.epoch}
        return self._begun(client, client.init(self._chance.choice((3, 4, 5)), **own))

    def _add(self, client: Producer) -> Any:
        indexes = self._chance.choice(([0], [1], [0, 1]))
        return client.add({self._topic: indexes}, self._chance.randrange(4))

    def _add_offsets(self, client: Producer) -> Any:
        return client.add_offsets(self._group.id, self._chance.randrange(5))

    def _commit_offsets(self, client: Producer) -> Any:
        """A fenced client's makes Apache Kafka 3.9.1 forget its successor's (`transaction_differences.py`)."""
        if self._newest.get(client.id) is not client:
            return "no question"
        rows = {self._topic: [at(self._chance.randrange(100), self._partition())]}
        return client.commit_offsets(self._group.id, rows, self._chance.randrange(5))

    def _overtake(self, _client: Producer) -> Any:
        topics = [{"name": self._topic, "partitions": [at(self._chance.randrange(100), self._partition())]}]
        return self._broker.ask("OffsetCommit", 8, group_id=self._group.id, topics=topics)

    def _send(self, client: Producer) -> Any:
        """Mostly the next batch, else one with a gap, or one that is there."""
        partition, count = self._partition(), self._chance.randrange(1, 4)
        wrong = max(client.sequence(self._topic, partition) + self._chance.choice((-2, -1, 1)), 0)
        fields = {"base_sequence": wrong} if self._chance.random() < 0.2 else {}
        version = self._chance.randrange(3, 12)
        answer = client.send(self._topic, count, partition=partition, version=version, **fields)
        return [answer["error_code"], answer["base_offset"]]

    def _end(self, client: Producer) -> Any:
        """Mostly with the client's epoch."""
        epoch = client.epoch + self._chance.choice((0, 0, 0, 0, 1, -1))
        commits = self._chance.random() < 0.5
        answer = client.end(self._chance.randrange(5), commits=commits, producer_epoch=epoch)
        self._quiet(client)
        return answer

    def _plain(self, _client: Producer) -> Any:
        return self._broker.produce(self._topic, batch(1), partition=self._partition())["base_offset"]

    def _delete(self, _client: Producer) -> Any:
        partitions = [{"partition_index": self._partition(), "offset": self._chance.randrange(4)}]
        topics = [{"name": self._topic, "partitions": partitions}]
        return self._broker.ask("DeleteRecords", 2, topics=topics, timeout_ms=5_000)

    def _describe(self, client: Producer) -> Any:
        """But for when it began (`transaction_differences.py`) and which partition the group has."""
        seen = self._quiet(client)
        del seen["transaction_start_time_ms"]
        seen["topics"] = [topic if topic["topic"] == self._topic else topic["topic"] for topic in seen["topics"]]
        answer = self._broker.ask("DescribeProducers", 0, topics=[{"name": self._topic, "partition_indexes": [0, 1]}])
        for partition in answer["topics"][0]["partitions"]:
            partition["active_producers"].sort(key=lambda one: one["producer_id"])
        return [seen, answer]

    def _fetch(self, _client: Producer) -> Any:
        version, level = self._chance.randrange(4, 18), self._chance.randrange(2)
        offset, partition = self._chance.randrange(8), self._partition()
        return fetch(self._broker, self._topic, offset, version=version, isolation_level=level, partition=partition)

    def _list(self, _client: Producer) -> Any:
        partitions = [{"partition_index": self._partition(), "timestamp": self._chance.choice((-1, -2))}]
        topics = [{"name": self._topic, "partitions": partitions}]
        answer = self._broker.ask(
            "ListOffsets", 7, replica_id=-1, isolation_level=self._chance.randrange(2), topics=topics
        )
        row = answer["topics"][0]["partitions"][0]
        return [row["error_code"], row["offset"]]

    def _read(self) -> Any:
        """What a reader of committed records gets at last."""
        return [
            fetch(self._broker, self._topic, 0, isolation_level=1, partition=index)["responses"][0]["partitions"][0]
            for index in (0, 1)
        ]


def _played(seed: int) -> Callable[[Broker], Any]:
    def play(broker: Broker) -> Any:
        return _Conversation(broker, seed).play()

    return play


for _seed in SEEDS:
    situation(f"{STEPS} steps of four transactional clients by chance, seed {_seed}")(_played(_seed))
for _seed in NEWEST_SEEDS:
    _sentence = f"{STEPS} steps of four transactional clients by chance, beside the newest Apache Kafka, seed {_seed}"
    situation(_sentence, judge=KRAFT)(_played(_seed))
