"""The members of a situation's share group, and what is asked about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.compat.consumer_groups.story import JOIN, LEAVE, Partitions, Story
from tests.compat.situations.definitions import Values

INITIALIZED = "ShareGroupStatePartitionMetadata"


class ShareGroup:
    """Remembers the last epoch of each member."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.epochs = defaultdict[str, int](int)

    # --- members ---------------------------------------------------------------------------------

    def beat(self, member: str = "a", epoch: int | None = None, **fields: Any) -> Any:
        """A heartbeat, with the last epoch of the member. `topics`: subscription."""
        if (topics := fields.pop("topics", None)) is not None:
            fields["subscribed_topic_names"] = [self.story.full(topic) for topic in topics]
        epoch = self.epochs[member] if epoch is None else epoch
        fields = {"group_id": self.story.group, "member_id": member, "member_epoch": epoch, **fields}
        answer = self.story.ask("ShareGroupHeartbeat", 1, **fields)
        if answer["member_epoch"] > 0:
            self.epochs[answer["member_id"]] = answer["member_epoch"]
        return answer

    def join(self, member: str = "a", topics: Sequence[str] | None = ("foo",), **fields: Any) -> Any:
        return self.beat(member, JOIN, topics=topics, **fields)

    def leave(self, member: str = "a") -> Any:
        return self.beat(member, LEAVE)

    def wait_for_assignment(self, member: str = "a", **fields: Any) -> Any:
        """Beat until an assignment of partitions comes: the states of a topic are initialized in the background."""

        def is_assigned(answer: Any) -> bool:
            return bool(answer["assignment"] and answer["assignment"]["topic_partitions"])

        return self.story.last(lambda: self.beat(member, **fields), is_assigned)

    def settled(self, topics: Sequence[str] = ("foo",), member: str = "a", **fields: Any) -> None:
        """Have a member whose topics are assigned."""
        self.join(member, topics, **fields)
        self.wait_for_assignment(member)

    def emptied(self, topics: Sequence[str] = ("foo",)) -> None:
        """Have a group without members, whose topics were assigned."""
        self.settled(topics)
        self.leave()

    def describe(self, **fields: Any) -> Any:
        return self.story.ask("ShareGroupDescribe", 1, group_ids=[self.story.group], **fields)

    # --- offsets ---------------------------------------------------------------------------------

    def offsets(self, partitions: Partitions | None = None, version: int = 1) -> Any:
        """DescribeShareGroupOffsets: of these partitions, or of all."""
        topics = None
        if partitions is not None:
            rows = partitions.items()
            topics = [{"topic_name": self.story.full(topic), "partitions": list(numbers)} for topic, numbers in rows]
        groups = [{"group_id": self.story.group, "topics": topics}]
        return self.story.ask("DescribeShareGroupOffsets", version, groups=groups)

    def alter(self, starts: dict[str, dict[int, int]]) -> Any:
        """AlterShareGroupOffsets: start offsets by partition and topic."""
        topics = [
            {
                "topic_name": self.story.full(topic),
                "partitions": [{"partition_index": index, "start_offset": start} for index, start in rows.items()],
            }
            for topic, rows in starts.items()
        ]
        return self.story.ask("AlterShareGroupOffsets", 0, group_id=self.story.group, topics=topics)

    def delete_offsets(self, *topics: str) -> Any:
        rows: list[Values] = [{"topic_name": self.story.full(topic)} for topic in topics]
        return self.story.ask("DeleteShareGroupOffsets", 0, group_id=self.story.group, topics=rows)

    def delete(self) -> Any:
        return self.story.ask("DeleteGroups", 3, groups_names=[self.story.group])

    def list_it(self, version: int = 5, **filters: list[str]) -> None:
        """ListGroups; only the group of this situation is noted."""
        answer = self.story.broker.ask("ListGroups", version, **filters)
        answer["groups"] = [row for row in answer["groups"] if row["group_id"] == self.story.group]
        self.story.note_exchange("ListGroups", version, filters, answer)
