"""A member that speaks the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tests.compat.consumer_groups.story import Partitions, Sent, Story

MEMBER_ID_REQUIRED = 79
SESSION_MS = 30_000


class ClassicMember:
    """Remembers its id and generation. Its requests have a connection of their own, as they may wait."""

    def __init__(
        self,
        story: Story,
        name: str,
        topics: Sequence[str] = ("foo",),
        protocols: Sequence[str] = ("range",),
        **fields: Any,
    ) -> None:
        self.story = story
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.topics = topics
        self.protocols = protocols
        self.owned: Partitions = {}
        self.version = 3
        self.fields = fields
        self._sent: Sent | None = None

    def subscription(self) -> bytes:
        """The metadata of one protocol; a client says what it owns from v1 on, and in which generation from v2 on."""
        values: dict[str, Any] = {"topics": [self.story.full(topic) for topic in self.topics], "user_data": None}
        if self.version >= 1:
            rows = self.owned.items()
            values["owned_partitions"] = [{"topic": self.story.full(t), "partitions": list(n)} for t, n in rows]
        if self.version >= 2:
            values["generation_id"] = self.generation
        body = self.story.broker.definitions.encode("ConsumerProtocolSubscription", self.version, values)
        return struct.pack(">h", self.version) + body

    def assignment(self, owned: Partitions) -> bytes:
        rows = [{"topic": self.story.full(topic), "partitions": list(numbers)} for topic, numbers in owned.items()]
        values = {"assigned_partitions": rows, "user_data": None}
        return b"\0\0" + self.story.broker.definitions.encode("ConsumerProtocolAssignment", 0, values)

    def identity(self) -> dict[str, Any]:
        instance = {"group_instance_id": self.fields["group_instance_id"]} if "group_instance_id" in self.fields else {}
        return {"group_id": self.story.group, "member_id": self.member_id, **instance}

    def send_join(self, version: int = 9, **changes: Any) -> None:
        metadata = self.subscription()
        fields = {
            **self.identity(),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": metadata} for name in self.protocols],
            **self.fields,
            **changes,
        }
        self._sent = self.story.send("JoinGroup", version, on=self.name, **fields)

    def joined(self) -> Any:
        assert self._sent is not None
        answer = self._sent.answer()
        if isinstance(answer, dict):
            self.member_id = answer["member_id"] or self.member_id
            if answer["error_code"] == 0:
                self.generation = answer["generation_id"]
        return answer

    def join(self, version: int = 9, **changes: Any) -> Any:
        """Join, with the id that the first answer gives if one is required."""
        self.send_join(version, **changes)
        answer = self.joined()
        if isinstance(answer, dict) and answer["error_code"] == MEMBER_ID_REQUIRED:
            self.send_join(version, **changes)
            answer = self.joined()
        return answer

    def send_sync(self, plan: Mapping[str, Partitions] | None = None, version: int = 5, **changes: Any) -> Sent:
        rows = [{"member_id": member, "assignment": self.assignment(owned)} for member, owned in (plan or {}).items()]
        fields = {
            **self.identity(),
            "generation_id": self.generation,
            "protocol_type": "consumer",
            "protocol_name": self.protocols[0],
            "assignments": rows,
            **changes,
        }
        return self.story.send("SyncGroup", version, on=self.name, **fields)

    def sync(self, plan: Mapping[str, Partitions] | None = None, version: int = 5, **changes: Any) -> Any:
        return self.send_sync(plan, version, **changes).answer()

    def heartbeat(self, version: int = 4, **changes: Any) -> Any:
        fields = {**self.identity(), "generation_id": self.generation, **changes}
        return self.story.ask("Heartbeat", version, on=self.name, **fields)

    def leave(self, version: int = 5, **changes: Any) -> Any:
        identity = self.identity()
        identity.pop("group_id")
        return self.story.ask(
            "LeaveGroup", version, on=self.name, group_id=self.story.group, members=[{**identity, **changes}]
        )

    def stable_alone(self, owned: Partitions) -> None:
        """Join as the only member and take these partitions."""
        self.join()
        self.sync({self.member_id: owned})
        self.owned = owned
