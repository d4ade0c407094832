"""Transactional producers, played by hand.

A transactional id is used over the broker's shared connection, so that its requests arrive in the order in which they
are sent. What Apache Kafka does after it has answered (the markers, and what follows from them) is waited for.
"""

from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Values
from tests.compat.situations.members import Group
from tests.compat.situations.waiting import NOT_READY, until
from tests.compat.situations.wire import Broker, produce_fields

TIMEOUT_MS = 60_000
"""A transaction's timeout that outlives every situation."""
TRANSACTIONAL = 0x10
"""The attribute of a batch."""
CONCURRENT_TRANSACTIONS = 51
UNSTABLE_OFFSET_COMMIT = 88

Rows = dict[str, list[int]]
"""Partitions by topic."""


def wait_for_coordinator(broker: Broker, transactional_id: str) -> None:
    """Until the coordinator of a transactional id serves; the first request creates the topic of its state."""

    def find() -> int:
        found = broker.ask("FindCoordinator", 4, key_type=1, coordinator_keys=[transactional_id])
        return int(found["coordinators"][0]["error_code"])

    def describe() -> int:
        described = broker.ask("DescribeTransactions", 0, transactional_ids=[transactional_id])
        return int(described["transaction_states"][0]["error_code"])

    codes = [until(ask, lambda code: code not in NOT_READY) for ask in (find, describe)]
    assert codes[0] == 0, f"{transactional_id} has no coordinator: {codes}"


class Producer:
    """One transactional id: remembers the producer id and epoch it was last given, and its sequences."""

    def __init__(self, broker: Broker, name: str) -> None:
        """A producer that has not been initialised."""
        self.broker = broker
        self.id = broker.name(name)
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}
        wait_for_coordinator(broker, self.id)
        broker.close()  # The next connection is newer than the coordinators' partitions (docs/delayed-requests.md).

    def identity(self) -> Values:
        return {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    def init(self, version: int = 4, **changes: Any) -> Any:
        """One InitProducerId; what it gives is kept."""
        fields = {"transactional_id": self.id, "transaction_timeout_ms": TIMEOUT_MS, **changes}
        answer = until(
            lambda: self.broker.ask("InitProducerId", version, **fields),
            lambda seen: seen["error_code"] not in NOT_READY,
        )
        if answer["error_code"] == 0:
            self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
            self._sequences.clear()
        return answer

    def init_after(self, version: int = 4, **changes: Any) -> Any:
        """InitProducerId, repeated while an earlier transaction is being ended."""
        return until(lambda: self.init(version, **changes), lambda seen: seen["error_code"] != CONCURRENT_TRANSACTIONS)

    def add(self, rows: Rows, version: int = 3, **changes: Any) -> Any:
        """One AddPartitionsToTxn of this producer alone; its rows in order."""
        topics = changes.pop("topics", [{"name": name, "partitions": indexes} for name, indexes in rows.items()])
        transaction = {**self.identity(), "topics": topics, **changes}
        if version >= 4:
            return add_several(self.broker, [transaction], version)
        fields = {f"v3_and_below_{name}": value for name, value in transaction.items()}
        return _in_order(self.broker.ask("AddPartitionsToTxn", version, **fields))

    def add_after(self, rows: Rows, version: int = 3, **changes: Any) -> Any:
        """AddPartitionsToTxn, repeated while the last transaction is being ended."""
        return until(
            lambda: self.add(rows, version, **changes), lambda seen: not _has_code(seen, CONCURRENT_TRANSACTIONS)
        )

    def add_offsets(self, group_id: str, version: int = 3, **changes: Any) -> Any:
        fields = {**self.identity(), "group_id": group_id, **changes}
        return self.broker.ask("AddOffsetsToTxn", version, **fields)

    def commit_offsets(self, group_id: str, rows: dict[str, list[Values]], version: int = 3, **changes: Any) -> Any:
        """One TxnOffsetCommit; its rows in order."""
        topics = changes.pop("topics", [{"name": name, "partitions": partitions} for name, partitions in rows.items()])
        fields = {**self.identity(), "group_id": group_id, "topics": topics, **changes}
        answer = self.broker.ask("TxnOffsetCommit", version, **fields)
        if isinstance(answer, dict):
            answer["topics"].sort(key=lambda topic: topic["name"])
            for topic in answer["topics"]:
                topic["partitions"].sort(key=lambda row: row["partition_index"])
        return answer

    def end(self, version: int = 3, *, commits: bool = True, **changes: Any) -> Any:
        return self.broker.ask("EndTxn", version, **{**self.identity(), "committed": commits, **changes})

    def end_after(self, version: int = 3, *, commits: bool = True) -> Any:
        """EndTxn, repeated while the transaction is being completed."""
        return until(
            lambda: self.end(version, commits=commits), lambda seen: seen["error_code"] != CONCURRENT_TRANSACTIONS
        )

    def commit(self, version: int = 3) -> Any:
        """Commit, and wait for the markers."""
        return self._ended(version, commits=True)

    def abort(self, version: int = 3) -> Any:
        """Abort, and wait for the markers."""
        return self._ended(version, commits=False)

    def _ended(self, version: int, *, commits: bool) -> Any:
        answer = self.end(version, commits=commits)
        if answer["error_code"] == 0:
            self.wait_for("CompleteCommit" if commits else "CompleteAbort")
        return answer

    def sequence(self, topic: str, partition: int) -> int:
        """The sequence of the next batch for a partition."""
        return self._sequences.get((topic, partition), 0)

    def batch(self, topic: str, count: int = 1, partition: int = 0, **fields: Any) -> bytes:
        """The next transactional batch for a partition, unless the fields say otherwise."""
        sequence = self.sequence(topic, partition)
        identity = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "base_sequence": sequence}
        return batch(count, **{"attributes": TRANSACTIONAL, **identity, **fields})

    def send(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int = 0,
        version: int = 9,
        transactional_id: str | None = "",
        **fields: Any,
    ) -> Any:
        """The partition's answer to one batch; the sequence goes on when it is stored."""
        request = produce_fields(topic, self.batch(topic, count, partition, **fields), partition=partition)
        owner = self.id if transactional_id == "" else transactional_id
        answer = self.broker.ask("Produce", version, transactional_id=owner, **request)
        if isinstance(answer, str):
            return answer
        row = answer["responses"][0]["partition_responses"][0]
        if row["error_code"] == 0 and "base_sequence" not in fields:
            self._sequences[topic, partition] = self.sequence(topic, partition) + count
        return row

    def write(self, topic: str, count: int = 1, partition: int = 0) -> None:
        """Add the partition and send a batch; both are served."""
        added = self.add_after({topic: [partition]})
        assert not _has_error(added), added
        sent = self.send(topic, count, partition=partition)
        assert sent["error_code"] == 0, sent

    def describe(self) -> Any:
        """What DescribeTransactions answers about this id."""
        state = self.broker.ask("DescribeTransactions", 0, transactional_ids=[self.id])["transaction_states"][0]
        state["topics"].sort(key=lambda topic: topic["topic"])
        for topic in state["topics"]:
            topic["partitions"].sort()
        return state

    def state(self) -> str:
        return str(self.describe()["transaction_state"])

    def wait_for(self, state: str) -> Any:
        """Ask until the transaction is in this state."""
        seen = until(self.describe, lambda seen: seen["transaction_state"] == state)
        assert seen["transaction_state"] == state, f"{self.id} stays {seen}"
        return seen


def initialised(broker: Broker, name: str, **changes: Any) -> Producer:
    """A producer with an id and an epoch."""
    producer = Producer(broker, name)
    answer = producer.init(**changes)
    assert answer["error_code"] == 0, answer
    return producer


def add_several(broker: Broker, transactions: list[Values], version: int) -> Any:
    """One AddPartitionsToTxn of several transactions; its rows in order."""
    return _in_order(broker.ask("AddPartitionsToTxn", version, transactions=transactions))


def _in_order(answer: Any) -> Any:
    if isinstance(answer, dict):
        transactions = answer.get("results_by_transaction") or []
        transactions.sort(key=lambda row: row["transactional_id"])
        for topics in [
            answer.get("results_by_topic_v3_and_below") or [],
            *(row["topic_results"] for row in transactions),
        ]:
            topics.sort(key=lambda topic: topic["name"])
            for topic in topics:
                topic["results_by_partition"].sort(key=lambda row: row["partition_index"])
    return answer


def codes_of(answer: Any) -> list[int]:
    """The error codes of an AddPartitionsToTxn's partitions."""
    transactions = answer.get("results_by_transaction") or []
    topics = [
        *(answer.get("results_by_topic_v3_and_below") or []),
        *(t for row in transactions for t in row["topic_results"]),
    ]
    return [row["partition_error_code"] for topic in topics for row in topic["results_by_partition"]]


def _has_code(answer: Any, code: int) -> bool:
    return isinstance(answer, dict) and code in codes_of(answer)


def _has_error(answer: Any) -> bool:
    return not isinstance(answer, dict) or any(codes_of(answer))


def at(offset: int, partition: int = 0, **fields: Any) -> Values:
    """A row of TxnOffsetCommit."""
    return {"partition_index": partition, "committed_offset": offset, "committed_metadata": "", **fields}


def fetched(group: Group, topic: str, *, stable: bool, partition: int = 0) -> Any:
    """What OffsetFetch answers about one partition, with stable offsets required or not."""
    groups = [{"group_id": group.id, "topics": [{"name": topic, "partition_indexes": [partition]}]}]
    answer = group.broker.ask("OffsetFetch", 8, groups=groups, require_stable=stable)
    return answer["groups"][0]["topics"][0]["partitions"][0]


def settled(group: Group, topic: str, partition: int = 0) -> Any:
    """What OffsetFetch answers when no transaction's offset is left: a coordinator learns of an end a little later."""
    return until(
        lambda: fetched(group, topic, stable=True, partition=partition),
        lambda seen: seen["error_code"] != UNSTABLE_OFFSET_COMMIT,
    )
