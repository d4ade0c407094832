"""Conversations with a broker on which transaction.version 2 is finalised (KIP-890 part 2), one transactional id each.

Each returns (what was asked, the answer). Producer ids are counted in the order of their appearance, and epochs from the
one that the producer was given: what a second producer is given differs, as an end against a producer raises the epoch
by two here, and by one in Apache Kafka 4.4. They are no situations of `registry.py`, as the brokers are others:
test_raised_epochs.py starts them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.compat.situations.batches import batch
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

Row = tuple[str, Any]
NOT_YET: Final = {14, 15, 16, 51}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS."""
NOT_YET_APPENDED: Final = NOT_YET | {3, 6, 19}
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS."""
TRANSACTIONAL: Final = 0x10


class Client:
    """A transactional producer that names itself as it is told to."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.id = broker.name(name)
        self.topic = broker.create(name, 3)
        self.rows: list[Row] = []
        self._ids: list[int] = []
        self.producer_id = -1
        self.first_epoch = 0
        for key_type in (0, 1):
            until(lambda kind=key_type: self._find(kind), lambda code: code == 0)  # type: ignore[misc]

    def _find(self, key_type: int) -> int:
        answer = self.broker.ask("FindCoordinator", 4, key_type=key_type, coordinator_keys=[self.id])
        return int(answer["coordinators"][0]["error_code"])

    def _ask(self, api: str, version: int, is_good: Callable[[Any], bool], **fields: Any) -> Any:
        """The first good answer. A connection may be closed, as one that is older than another of this producer."""
        return until(
            lambda: self.broker.ask(api, version, **fields), lambda seen: not isinstance(seen, str) and is_good(seen)
        )

    def note(self, what: str, answer: Any) -> None:
        self.rows.append((what, answer))

    def _short(self, producer_id: int) -> int:
        if producer_id >= 0 and producer_id not in self._ids:
            self._ids.append(producer_id)
        return self._ids.index(producer_id) if producer_id >= 0 else -1

    def init(self, expected: tuple[int, int] = (-1, -1), *, timeout_ms: int = 60_000, version: int = 5) -> None:
        """Until no former transaction is in its way."""
        is_raised = expected != (-1, -1)
        answer = self._ask(
            "InitProducerId",
            version,
            lambda seen: seen["error_code"] not in NOT_YET,
            transactional_id=self.id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1] + self.first_epoch if is_raised else -1,
        )
        if answer["error_code"] == 0:
            self.producer_id = answer["producer_id"]
            if not is_raised:
                assert answer["producer_epoch"] >= self.first_epoch
                self.first_epoch = answer["producer_epoch"]
        self.note(f"init {_named(expected[1])}", (answer["error_code"], *self._given(answer)))

    def _given(self, answer: Any) -> tuple[int, int]:
        epoch = answer["producer_epoch"]
        return self._short(answer["producer_id"]), epoch if epoch < 0 else epoch - self.first_epoch

    def end(self, epoch: int, *, commit: bool, version: int = 5, producer_id: int | None = None) -> None:
        """Until the last transaction is completed."""
        answer = self._ask(
            "EndTxn",
            version,
            lambda seen: seen["error_code"] not in NOT_YET,
            transactional_id=self.id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=epoch + self.first_epoch,
            committed=commit,
        )
        given = self._given(answer) if version >= 5 else ()
        self.note(f"{'commit' if commit else 'abort'} {_named(epoch)}", (answer["error_code"], *given))

    def produce(self, epoch: int, *sequences: int, version: int = 12) -> None:
        """One record to each partition of these sequences, until the last transaction is completed."""
        rows = [
            {
                "index": index,
                "records": batch(
                    attributes=TRANSACTIONAL,
                    producer_id=self.producer_id,
                    producer_epoch=epoch + self.first_epoch,
                    base_sequence=sequence,
                ),
            }
            for index, sequence in enumerate(sequences)
        ]
        answer = self._ask(
            "Produce",
            version,
            lambda seen: not NOT_YET_APPENDED & set(_codes(seen)),
            transactional_id=self.id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[{"name": self.topic, "partition_data": rows}],
        )
        self.note(f"produce {_named(epoch)} {sequences}", _codes(answer))

    def add(self, epoch: int) -> None:
        """As clients before transaction.version 2 do."""
        answer = self._ask(
            "AddPartitionsToTxn",
            3,
            lambda seen: _added(seen) not in NOT_YET,
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=epoch + self.first_epoch,
            v3_and_below_topics=[{"name": self.topic, "partitions": [0]}],
        )
        self.note(f"add {_named(epoch)}", _added(answer))

    def commit_offset(self, epoch: int, offset: int, version: int = 5) -> None:
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = self._ask(
            "TxnOffsetCommit",
            version,
            lambda seen: seen["topics"][0]["partitions"][0]["error_code"] not in NOT_YET,
            transactional_id=self.id,
            group_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=epoch + self.first_epoch,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": self.topic, "partitions": [partition]}],
        )
        self.note(f"offset {_named(epoch)}", answer["topics"][0]["partitions"][0]["error_code"])

    def fetch_offset(self) -> None:
        groups = [{"group_id": self.id, "topics": [{"name": self.topic, "partition_indexes": [0]}]}]
        answer = until(
            lambda: self.broker.ask("OffsetFetch", 8, groups=groups, require_stable=True)["groups"][0],
            lambda seen: seen["topics"][0]["partitions"][0]["error_code"] != 88,  # UNSTABLE_OFFSET_COMMIT
        )
        self.note("fetch", answer["topics"][0]["partitions"][0]["committed_offset"])

    def state(self) -> str:
        answer = self.broker.ask("DescribeTransactions", 0, transactional_ids=[self.id])
        return str(answer["transaction_states"][0]["transaction_state"])

    def described(self, wanted: str = "Complete", *, shows_partitions: bool = True) -> None:
        """The coordinator's state, once it is one that begins so; and the epochs in the partitions."""
        answer = until(
            lambda: self.broker.ask("DescribeTransactions", 0, transactional_ids=[self.id])["transaction_states"][0],
            lambda seen: seen["transaction_state"].startswith(wanted),
        )
        described = self.broker.ask("DescribeProducers", 0, topics=[{"name": self.topic, "partition_indexes": [0, 1]}])
        epochs = [
            [row["producer_epoch"] - self.first_epoch for row in partition["active_producers"]]
            for partition in described["topics"][0]["partitions"]
        ]
        shown = epochs if shows_partitions else None
        self.note("described", (answer["transaction_state"], *self._given(answer), shown))


def _named(epoch: int) -> str:
    return str(epoch) if epoch >= 0 else "former"


def _codes(answer: Any) -> list[int]:
    return [row["error_code"] for topic in answer["responses"] for row in topic["partition_responses"]]


def _added(answer: Any) -> int:
    code: int = answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"]
    return code


def transactions_one_after_the_other(client: Client) -> None:
    client.init()
    for epoch, commit in enumerate((True, False, True)):
        client.produce(epoch, 0, 0)
        client.produce(epoch, 1)
        client.described("Ongoing")
        client.end(epoch, commit=commit)
        client.described()


def repeated_and_late_ends(client: Client) -> None:
    client.init()
    client.produce(0, 0)
    client.end(0, commit=True)
    client.described()
    for commit in (True, False):
        client.end(0, commit=commit)
    client.produce(0, 1)
    client.produce(1, 0)
    for epoch in (0, 2):
        for commit in (True, False):
            client.end(epoch, commit=commit)
    client.produce(0, 1, 0)
    client.end(1, commit=False)
    client.described()
    for commit in (False, True):
        client.end(1, commit=commit)
    client.described()


def ends_without_a_transaction(client: Client) -> None:
    client.init()
    client.end(0, commit=True)
    client.end(0, commit=False)
    client.described()
    client.end(1, commit=True)
    client.end(1, commit=False)
    client.described()
    client.end(0, commit=False)
    client.end(3, commit=False)
    client.end(2, commit=False, producer_id=client.producer_id + 1_000_000)
    client.produce(2, 0)
    client.end(2, commit=True)
    client.described()


def offsets(client: Client) -> None:
    client.init()
    client.commit_offset(0, 7)
    client.end(0, commit=True)
    client.fetch_offset()
    client.commit_offset(0, 5)
    client.commit_offset(1, 9)
    client.end(1, commit=False)
    client.fetch_offset()
    client.commit_offset(2, 11)
    client.produce(2, 0)
    client.commit_offset(2, 12)
    client.end(2, commit=True)
    client.fetch_offset()


def a_second_producer(client: Client) -> None:
    client.init()
    client.produce(0, 0)
    client.init()
    client.described("Empty", shows_partitions=False)
    former = -client.first_epoch
    for commit in (True, False):
        client.end(former, commit=commit)
    client.produce(former, 1, 0)
    client.commit_offset(former, 7)
    client.init((client.producer_id, former))
    client.produce(0, 0)
    client.end(0, commit=True)
    client.described()


def a_producer_that_raises_its_epoch_itself(client: Client) -> None:
    client.init()
    client.init((client.producer_id, 0))
    client.produce(1, 0)
    client.end(1, commit=True)
    client.described()
    client.init((client.producer_id, 1))
    client.init((client.producer_id, 2))
    client.init((client.producer_id, 1))
    client.described("Empty")
    client.produce(3, 0)
    client.end(3, commit=False)
    client.described()


def sequences(client: Client) -> None:
    client.init()
    client.produce(0, 3)
    client.produce(0, 0)
    client.produce(0, 2)
    client.produce(0, 1)
    client.end(0, commit=True)
    client.described()
    client.produce(1, 2)
    client.produce(1, 0)
    client.produce(1, 0)
    client.end(1, commit=True)


def a_timeout(client: Client) -> None:
    client.init(timeout_ms=1_000)
    client.produce(0, 0)
    state = until(client.state, lambda seen: str(seen).startswith("Complete"))
    client.note("state", state)
    client.end(1_000, commit=False)
    client.produce(0, 1, 0)
    client.init()
    client.produce(0, 0, 0)
    client.end(0, commit=True)
    client.described()


def older_clients(client: Client) -> None:
    client.init(version=4)
    client.produce(0, 0, version=11)
    client.add(0)
    client.produce(0, 0, version=11)
    client.end(0, commit=True, version=4)
    client.described()
    client.end(0, commit=True, version=4)
    client.end(0, commit=False, version=4)
    client.add(0)
    client.commit_offset(0, 7, version=4)
    client.produce(0, 1, version=11)
    client.end(0, commit=False, version=3)
    client.described()
    client.produce(0, 2)
    client.end(0, commit=True)
    client.described()


CONVERSATIONS: Final[tuple[Callable[[Client], None], ...]] = (
    transactions_one_after_the_other,
    repeated_and_late_ends,
    ends_without_a_transaction,
    offsets,
    a_second_producer,
    a_producer_that_raises_its_epoch_itself,
    sequences,
    a_timeout,
    older_clients,
)


def held(broker: Broker, conversation: Callable[[Client], None]) -> list[Row]:
    client = Client(broker, conversation.__name__.replace("_", "-"))
    conversation(client)
    return client.rows


def finalise(broker: Broker) -> None:
    """On Apache Kafka."""
    update = {"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1}
    broker.ask("UpdateFeatures", 1, timeout_ms=10_000, feature_updates=[update], validate_only=False)
    software = {"client_software_name": "situations", "client_software_version": "1.0"}
    answer = until(
        lambda: broker.ask("ApiVersions", 4, **software),
        lambda seen: "transaction.version" in {one["name"] for one in seen["finalized_features"]},
    )
    assert {"name": "transaction.version", "max_version_level": 2, "min_version_level": 2} in answer[
        "finalized_features"
    ]
