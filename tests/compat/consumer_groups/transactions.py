"""Offsets that a transaction commits for a consumer group."""

from typing import Any

from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import Story
from tests.compat.situations.waiting import NOT_READY, until

ALL = {"foo": [0, 1, 2]}


class Transaction:
    """A producer with an open transaction to which the group belongs."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.name = f"{story.group}-producer"
        story.names.name(self.name, "producer")
        until(
            lambda: story.broker.ask("FindCoordinator", 4, key_type=1, coordinator_keys=[self.name]),
            lambda seen: seen["coordinators"][0]["error_code"] == 0,
        )
        answer = until(
            lambda: story.broker.ask("InitProducerId", 4, transactional_id=self.name, transaction_timeout_ms=60_000),
            lambda seen: seen["error_code"] not in NOT_READY,
        )
        self.ends = {"producer_id": answer["producer_id"], "producer_epoch": answer["producer_epoch"]}
        self._add()

    def _add(self) -> None:
        added = until(
            lambda: self.story.broker.ask(
                "AddOffsetsToTxn", 3, transactional_id=self.name, group_id=self.story.group, **self.ends
            ),
            lambda seen: seen["error_code"] not in (*NOT_READY, 51),
        )
        assert added["error_code"] == 0, added

    def commit(self, member: str, epoch: int, version: int = 3, partitions: Any = (0,), **fields: Any) -> Any:
        rows = [{"partition_index": index, "committed_offset": 7} for index in partitions]
        fields = {"transactional_id": self.name, "group_id": self.story.group, "member_id": member, **fields}
        fields |= {
            "generation_id_or_member_epoch": epoch,
            "topics": [{"name": self.story.full("foo"), "partitions": rows}],
        }
        return self.story.ask("TxnOffsetCommit", version, **fields, **self.ends)

    def end(self, *, committed: bool = True) -> None:
        answer = self.story.broker.ask("EndTxn", 3, transactional_id=self.name, committed=committed, **self.ends)
        assert answer["error_code"] == 0, answer
        until(
            lambda: self.story.broker.ask("DescribeTransactions", 0, transactional_ids=[self.name]),
            lambda seen: seen["transaction_states"][0]["transaction_state"].startswith("Complete"),
        )


@situation("TxnOffsetCommit with the member's epoch, an older one, a newer one, and none")
def epochs(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    transaction = Transaction(story)
    current = story.epochs["a"]
    for epoch in (current, current - 1, current + 1, 0, -1, -2):
        transaction.commit("a", epoch)
    transaction.end()
    story.ask("OffsetFetch", 9, groups=[{"group_id": story.group, "topics": None}])


@situation("TxnOffsetCommit of unknown members, of none, and of an unknown group")
def unknown(story: Story) -> None:
    transaction = Transaction(story)
    transaction.commit("x", 1)
    transaction.commit("", 1)
    story.join("a")
    transaction.commit("x", story.epochs["a"])
    transaction.commit("", story.epochs["a"])
    transaction.commit("", -1)
    transaction.commit("x", -1)
    transaction.end(committed=False)


@situation("TxnOffsetCommit in every version")
def versions(story: Story) -> None:
    story.join("a")
    transaction = Transaction(story)
    for version in (3, 4, 5):
        transaction.commit("a", story.epochs["a"], version)
    transaction.end()


@situation("TxnOffsetCommit with an older epoch of partitions assigned before and after it (KIP-1251)")
def assignment_epochs(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    first = story.epochs["a"]
    story.join("b")
    story.beat("a", owned={"foo": [0, 1]})
    story.beat("b")
    transaction = Transaction(story)
    for epoch in (first, story.epochs["a"]):
        for partition in range(3):
            transaction.commit("a", epoch, partitions=(partition,))
            transaction.commit("b", epoch, partitions=(partition,))
    transaction.end()


@situation("TxnOffsetCommit of a static member")
def static(story: Story) -> None:
    story.join("a", instance_id="i")
    transaction = Transaction(story)
    transaction.commit("a", story.epochs["a"], group_instance_id="i")
    transaction.commit("a", story.epochs["a"], group_instance_id="j")
    transaction.end()


@situation("a group with offsets of an open transaction is deleted")
def delete(story: Story) -> None:
    story.join("a")
    transaction = Transaction(story)
    transaction.commit("a", story.epochs["a"])
    story.leave("a")
    topics = [{"name": story.full("foo"), "partition_indexes": [0, 1]}]
    for asked in (topics, None):
        story.ask("OffsetFetch", 9, groups=[{"group_id": story.group, "topics": asked}], require_stable=True)
    story.ask("DeleteGroups", 3, groups_names=[story.group])
    transaction.end()
    story.records()
