"""Consumer groups and their members, played by hand.

Every member has a connection of its own, since a JoinGroup or SyncGroup may have to wait for the others'.
Members first ask for an id, which makes the coordinator wait for all that have one: so a generation holds
exactly the members that were gathered for it, however their requests overtake each other.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from tests.compat.situations.definitions import Values
from tests.compat.situations.waiting import NOT_READY, until
from tests.compat.situations.wire import Broker

MEMBER_ID_REQUIRED = 79
LONG_MS = 20_000
"""A session that outlives every situation."""
SHORT_MS = 400
"""A timeout that a situation waits for; long enough for the steps before it on a busy machine."""

Protocols = dict[str, bytes]


def wait_for_coordinator(broker: Broker, group_id: str) -> None:
    """Until the group's coordinator serves; the first request creates the offsets topic."""

    def find() -> int:
        found = broker.ask("FindCoordinator", 4, coordinator_keys=[group_id])
        return int(found["coordinators"][0]["error_code"])

    def fetch() -> int:
        fetched = broker.ask("OffsetFetch", 8, groups=[{"group_id": group_id, "topics": []}])
        return int(fetched["groups"][0]["error_code"])

    codes = [until(ask, lambda code: code not in NOT_READY) for ask in (find, fetch)]
    assert codes == [0, 0], f"{group_id} has no coordinator: {codes}"


class Member:
    """One member: remembers the id and the generation it was last given, and what it has asked."""

    def __init__(self, group: "Group", protocols: Protocols, instance: str | None, **fields: Any) -> None:
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.instance = instance
        self.protocols = protocols
        self.fields = fields
        self.conversation = group.broker.connect()
        self._asked: list[tuple[str, int, int]] = []

    def identity(self) -> Values:
        return {"member_id": self.member_id, "group_instance_id": self.instance}

    def send(self, api: str, version: int, **fields: Any) -> None:
        self._asked.append((api, version, self.conversation.send(api, version, **fields)))

    def receive(self) -> Any:
        """The next answer; the id and generation in a JoinGroup's are kept."""
        api, version, correlation_id = self._asked.pop(0)
        answer = self.conversation.receive(api, version, correlation_id)
        if api == "JoinGroup" and isinstance(answer, dict):
            self.member_id = answer["member_id"] or self.member_id
            if answer["error_code"] == 0:
                self.generation = answer["generation_id"]
            answer["members"].sort(key=lambda member: (member.get("group_instance_id") or "", member["metadata"]))
        return answer

    def send_join(self, version: int = 9, **changes: Any) -> None:
        rows = [{"name": name, "metadata": metadata} for name, metadata in self.protocols.items()]
        fields = {
            "group_id": self.group.id,
            "session_timeout_ms": LONG_MS,
            "rebalance_timeout_ms": LONG_MS,
            "protocol_type": "consumer",
            "protocols": rows,
            **self.identity(),
            **self.fields,
            **changes,
        }
        self.send("JoinGroup", version, **fields)

    def join(self, version: int = 9, **changes: Any) -> Any:
        """One JoinGroup and its answer."""
        self.send_join(version, **changes)
        return self.receive()

    def ask_for_id(self) -> Self:
        """Join, and join again with the member id of the first response; static members get none."""
        if self.instance is None and not self.member_id:
            assert self.join()["error_code"] == MEMBER_ID_REQUIRED
        return self

    def enter(self, version: int = 9, **changes: Any) -> Any:
        """Ask for an id if there is none yet, and join."""
        self.ask_for_id()
        return self.join(version, **changes)

    def sync_fields(self) -> Values:
        """A SyncGroup but for the assignments."""
        return {
            "group_id": self.group.id,
            "generation_id": self.generation,
            "protocol_type": "consumer",
            "protocol_name": "range",
            **self.identity(),
        }

    def send_sync(self, assignments: dict["Member", bytes] | None = None, version: int = 5, **changes: Any) -> None:
        rows = [
            {"member_id": member.member_id, "assignment": assignment}
            for member, assignment in (assignments or {}).items()
        ]
        self.send("SyncGroup", version, **{**self.sync_fields(), "assignments": rows, **changes})

    def sync(self, assignments: dict["Member", bytes] | None = None, version: int = 5, **changes: Any) -> Any:
        self.send_sync(assignments, version, **changes)
        return self.receive()

    def heartbeat(self, version: int = 4, **changes: Any) -> Any:
        fields = {"group_id": self.group.id, "generation_id": self.generation, **self.identity(), **changes}
        return self.conversation.ask("Heartbeat", version, **fields)

    def leave(self, version: int = 5) -> Any:
        if version < 3:
            return self.conversation.ask("LeaveGroup", version, group_id=self.group.id, member_id=self.member_id)
        return self.conversation.ask("LeaveGroup", version, group_id=self.group.id, members=[self.identity()])

    def commit(self, topic: str, offset: int, version: int = 9, **changes: Any) -> Any:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
        fields = {
            "group_id": self.group.id,
            "generation_id_or_member_epoch": self.generation,
            "topics": [{"name": topic, "partitions": [partition]}],
            **self.identity(),
            **changes,
        }
        return self.conversation.ask("OffsetCommit", version, **fields)

    def close(self) -> None:
        self.conversation.close()


def _has_all(described: Values, members: list[Member]) -> bool:
    """Whether the static ones have all joined; the coordinator itself waits for those that asked for an id."""
    there = {row["group_instance_id"] for row in described["members"]}
    return all(member.instance in there for member in members if member.instance is not None)


class Group:
    """One group of a situation's own; closes its members' connections at the end."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.id = broker.name(name)
        self._members: list[Member] = []
        wait_for_coordinator(broker, self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            member.close()

    def member(self, metadata: bytes = b"m", instance: str | None = None, **fields: Any) -> Member:
        """A member that joins with the protocol 'range', or with those given as `protocols`."""
        protocols = fields.pop("protocols", {"range": metadata})
        member = Member(self, protocols, instance, **fields)
        self._members.append(member)
        return member

    def gather(self, *members: Member) -> list[Any]:
        """Let these members form one generation; the first was there before and leads. Their JoinGroup answers."""
        first, *others = members
        entered = first.enter()
        if not others:
            return [entered]
        for member in others:
            member.ask_for_id()
        for member in others:
            member.send_join()
        self.wait_until(lambda seen: seen["group_state"] == "PreparingRebalance" and _has_all(seen, others))
        first.send_join()
        return [member.receive() for member in members]

    def settle(self, *members: Member) -> list[Any]:
        """Gather them and let the first assign b'0' to itself, b'1' to the next and so on: a Stable group."""
        joined = self.gather(*members)
        for answer in joined:
            assert answer["error_code"] == 0, answer
        shares = {member: b"%d" % index for index, member in enumerate(members)}
        synced = [members[0].sync(shares), *(member.sync() for member in members[1:])]
        for answer in synced:
            assert answer["error_code"] == 0, answer
        return joined

    def describe(self, version: int = 5) -> Any:
        """DescribeGroups' answer about this group alone."""
        group = self.broker.ask("DescribeGroups", version, groups=[self.id])["groups"][0]
        known = [member.member_id for member in self._members]
        group["members"].sort(key=lambda row: known.index(row["member_id"]) if row["member_id"] in known else -1)
        return group

    def state(self) -> str:
        return str(self.describe()["group_state"])

    def wait_until(self, condition: Callable[[Any], bool]) -> Any:
        """Ask until the group is described as wanted."""
        seen = until(self.describe, condition)
        assert condition(seen), f"{self.id} stays {seen}"
        return seen

    def wait_for_state(self, state: str) -> None:
        self.wait_until(lambda seen: seen["group_state"] == state)

    def committed(self, topic: str, partition: int = 0) -> Any:
        """What OffsetFetch answers about one partition."""
        topics = [{"name": topic, "partition_indexes": [partition]}]
        answer = self.broker.ask("OffsetFetch", 8, groups=[{"group_id": self.id, "topics": topics}])
        return answer["groups"][0]["topics"][0]["partitions"][0]
