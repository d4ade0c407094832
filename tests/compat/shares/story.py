"""A situation of a share group as it is played before one broker: requests and answers become lines of a transcript."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from tests.compat.shares.judge import GROUP_RESOURCE, SET
from tests.compat.shares.stored import folded
from tests.compat.situations.batches import batch
from tests.compat.situations.waiting import NOT_READY, until
from tests.compat.situations.wire import Broker, Conversation

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
OPEN, CLOSE = 0, -1
CLUSTER_AUTHORIZATION_FAILED: Final = 31
BRIEFLY_MS: Final = 100
PATIENCE_MS: Final = 4_000
Said = tuple[int, int, Sequence[int]]
"""First and last offset, types."""
Of = Mapping[tuple[str, int], Sequence[Said]]
"""Acknowledgements by partition."""


class Sent:
    """A request whose answer is read later, as it may have to wait."""

    def __init__(
        self, story: ShareStory, on: str, api: str, version: int, correlation_id: int, said: Iterable[tuple[bytes, int]]
    ) -> None:
        """`said`: the partitions that the request acknowledges."""
        self._story, self._on, self._api, self._version = story, on, api, version
        self._correlation_id = correlation_id
        self._said = frozenset(said)

    def answer(self) -> Any:
        answer = self._story.conversation(self._on).receive(self._api, self._version, self._correlation_id)
        self._story.note_answer(self._on, answer, self._said)
        return answer


class ShareStory:
    """One situation, its group `g` and its topic `t`."""

    def __init__(self, broker: Broker, number: int) -> None:
        self.broker = broker
        self.lines: list[str] = []
        self._number = number
        self._conversations: dict[str, Conversation] = {}
        self.ids: dict[str, bytes] = {"?": b"?" * 16}
        self.epochs: dict[str, int] = {}
        """The next epoch of each member's session."""
        self._member_epochs: dict[tuple[str, str], int] = {}
        self.group = broker.name(f"share-{number}")

    def close(self) -> None:
        for conversation in self._conversations.values():
            conversation.close()

    # --- the group, its topics and their records ---------------------------------------------------

    def begin(self, *topics: str, members: Iterable[str] = ("a",), partitions: int = 1, **settings: object) -> None:
        """Topics, a group that reads them from their start, and members with their partitions assigned."""
        for topic in topics or ("t",):
            self.topic(topic, partitions)
        self.set(**{"share.auto.offset.reset": "earliest", **{k.replace("_", "."): v for k, v in settings.items()}})
        self._await_coordinator()
        for member in members:
            self.join(member)

    def topic(self, name: str, partitions: int = 1) -> None:
        full = self.broker.create_led(f"{name}-{self._number}", partitions)
        self.ids[name] = self.broker.topic_id(full)

    def full(self, topic: str) -> str:
        return self.broker.name(f"{topic}-{self._number}")

    def set(self, group: str | None = None, **settings: object) -> None:
        """Settings of the group."""
        configs = [
            {"name": key, "config_operation": SET, "value": str(value)} for key, value in sorted(settings.items())
        ]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": group or self.group, "configs": configs}
        answer = self.broker.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        assert answer["responses"][0]["error_code"] == 0, answer

    def _await_coordinator(self) -> None:
        until(
            lambda: self.broker.ask("FindCoordinator", 4, coordinator_keys=[self.group])["coordinators"][0],
            lambda found: found["error_code"] not in NOT_READY,
        )
        until(
            lambda: self.broker.ask("ShareGroupDescribe", 1, group_ids=[self.group])["groups"][0]["error_code"],
            lambda code: code not in NOT_READY,
        )

    def join(self, member: str, *, group: str | None = None, topics: Sequence[str] | None = None) -> None:
        """A member of the group, once all partitions are assigned to it."""
        names = [self.full(topic) for topic in topics or [topic for topic in self.ids if topic != "?"]]
        group = group or self.group

        def beat() -> bool:
            epoch = self._member_epochs.get((group, member), 0)
            answer = self.broker.ask(
                "ShareGroupHeartbeat",
                1,
                group_id=group,
                member_id=member,
                member_epoch=epoch,
                subscribed_topic_names=names if epoch == 0 else None,
            )
            assert answer["error_code"] in (0, *NOT_READY), answer
            if answer["error_code"]:
                return False
            self._member_epochs[group, member] = answer["member_epoch"]
            found = answer["assignment"]
            return bool(found) and len(found["topic_partitions"]) == len(names)

        assert until(beat, bool)

    def leave(self, member: str) -> None:
        """The member leaves the group."""
        answer = self.broker.ask(
            "ShareGroupHeartbeat",
            1,
            group_id=self.group,
            member_id=member,
            member_epoch=-1,
            subscribed_topic_names=None,
        )
        self.lines.append(f"{member} leaves: {answer['error_code']}")

    def produce(self, *sizes: int, topic: str = "t", partition: int = 0, **fields: Any) -> None:
        """A batch of each size."""
        for size in sizes:
            answer = self.broker.produce(self.full(topic), batch(size, **fields), partition=partition)
            assert answer["error_code"] == 0, answer
        self.lines.append(f"produced to {topic}-{partition}: {', '.join(map(str, sizes))}")

    def log_end(self, topic: str = "t") -> int:
        rows = [{"partition_index": 0, "timestamp": -1}]
        answer = self.broker.ask(
            "ListOffsets", 5, replica_id=-1, topics=[{"name": self.full(topic), "partitions": rows}]
        )
        end: int = answer["topics"][0]["partitions"][0]["offset"]
        return end

    def delete_records(self, before: int, topic: str = "t") -> None:
        rows = [{"partition_index": 0, "offset": before}]
        topics = [{"name": self.full(topic), "partitions": rows}]
        answer = self.broker.ask("DeleteRecords", 2, topics=topics, timeout_ms=10_000)
        row = answer["topics"][0]["partitions"][0]
        self.lines.append(f"records deleted before {before}: {row['error_code']}")

    def stored(self, topic: str = "t") -> None:
        """Note what has been written."""
        self.lines.append(f"stored: {self.read_state(topic)}")

    def stored_is(self, *runs: tuple[int, int, int, int], start: int, topic: str = "t") -> None:
        """Wait until that has been written, as it is written behind the answer."""
        wanted = f"{start} {list(runs)}"
        self.lines.append(f"stored at last: {until(lambda: self.read_state(topic), lambda seen: seen == wanted)}")

    def read_state(self, topic: str = "t") -> str:
        wanted = {"topic_id": self.ids[topic], "partitions": [{"partition": 0, "leader_epoch": 0}]}
        answer = self.broker.ask("ReadShareGroupState", 0, group_id=self.group, topics=[wanted])
        row = answer["results"][0]["partitions"][0]
        if row["error_code"] == CLUSTER_AUTHORIZATION_FAILED:
            start, stored = folded(self.broker, self.group, self.ids[topic])
            return f"{start} {[(run.first, run.end - 1, int(run.state), run.deliveries) for run in stored]}"
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        runs = [tuple(run[name] for name in names) for run in row["state_batches"]]
        return f"{row['start_offset']} {runs}" if row["error_code"] == 0 else f"error {row['error_code']}"

    # --- requests ------------------------------------------------------------------------------------

    def conversation(self, on: str) -> Conversation:
        if on not in self._conversations or self._conversations[on].is_closed:
            self._conversations[on] = self.broker.connect()
        return self._conversations[on]

    def disconnect(self, on: str) -> None:
        self._conversations.pop(on).close()
        self.lines.append(f"{on} disconnects")

    def send_fetch(
        self,
        member: str = "a",
        said: Of | None = None,
        *,
        epoch: int | None = None,
        parts: Sequence[tuple[str, int]] = (("t", 0),),
        forgotten: Sequence[tuple[str, int]] = (),
        version: int = 2,
        **fields: Any,
    ) -> Sent:
        said = said or {}
        values = {
            "max_wait_ms": BRIEFLY_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **fields,
        }
        topics = self._topics([*parts, *(part for part in said if part not in parts)], said)
        forgets = [{"topic_id": self.ids[topic], "partitions": [index]} for topic, index in forgotten]
        about = f"parts={_of(parts)} said={dict(said)} forgotten={_of(forgotten)} {fields or ''}"
        body = {**values, "topics": topics, "forgotten_topics_data": forgets}
        return self._send("ShareFetch", version, member, epoch, about, body)

    def fetch(self, member: str = "a", said: Of | None = None, **fields: Any) -> Any:
        return self.send_fetch(member, said, **fields).answer()

    def acknowledge(
        self, said: Of | Sequence[Said], member: str = "a", *, epoch: int | None = None, version: int = 2, **fields: Any
    ) -> Any:
        of: Of = said if isinstance(said, Mapping) else {("t", 0): said}
        topics, about = self._topics(list(of), of), f"said={dict(of)} {fields or ''}"
        return self._send("ShareAcknowledge", version, member, epoch, about, {"topics": topics, **fields}).answer()

    def _topics(self, parts: Sequence[tuple[str, int]], said: Of) -> list[dict[str, Any]]:
        return [
            {
                "topic_id": self.ids[topic],
                "partitions": [
                    {
                        "partition_index": index,
                        "acknowledgement_batches": [
                            {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
                            for first, last, types in said.get((topic, index), ())
                        ],
                    }
                ],
            }
            for topic, index in parts
        ]

    def _send(
        self, api: str, version: int, member: str, epoch: int | None, about: str, fields: Mapping[str, Any]
    ) -> Sent:
        shown = "" if epoch is None else f" epoch={epoch}"
        self.lines.append(f"> {api} v{version} {member}{shown} {about}".rstrip())
        epoch = self.epochs.get(member, OPEN) if epoch is None else epoch
        fields = {"group_id": self.group, "member_id": member, "share_session_epoch": epoch, **fields}
        correlation_id = self.conversation(member).send(api, version, **fields)
        self.epochs[member] = OPEN if epoch == CLOSE else epoch + 1
        said = {
            (topic["topic_id"], row["partition_index"])
            for topic in fields["topics"]
            for row in topic["partitions"]
            if row["acknowledgement_batches"]
        }
        return Sent(self, member, api, version, correlation_id, said)

    def note_answer(self, on: str, answer: Any, said: Collection[tuple[bytes, int]]) -> None:
        """Rows in the order of their names, without those that say nothing: whether they come depends on the time."""
        if not isinstance(answer, dict):
            self.lines.append(f"< {on} {answer}")
            return
        if answer["error_code"]:
            self.epochs[on] = self.epochs[on] - 1
        lock = answer.get("acquisition_lock_timeout_ms")
        self.lines.append(f"< {on} error={answer['error_code']} lock={lock} endpoints={len(answer['node_endpoints'])}")
        names = {topic_id: name for name, topic_id in self.ids.items()}
        self.lines += sorted(
            f"<   {names[topic['topic_id']]}-{row['partition_index']} {_row(row)}"
            for topic in answer["responses"]
            for row in topic["partitions"]
            if row["error_code"] or row.get("acquired_records") or (topic["topic_id"], row["partition_index"]) in said
        )

    def note(self, line: str) -> None:
        self.lines.append(line)

    def fetch_until(self, member: str, good: Callable[[Any], bool], **fields: Any) -> Any:
        """Fetch until the answer is good; only the last is noted."""
        noted = len(self.lines)

        def fetch() -> Any:
            del self.lines[noted:]
            return self.fetch(member, **fields)

        answer = until(fetch, good)
        self.lines[noted] = f">> {member} fetches"
        return answer


def has_records(answer: Any) -> bool:
    """Whether records were acquired."""
    return any(row["acquired_records"] for topic in answer["responses"] for row in topic["partitions"])


def _of(parts: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{topic}-{index}" for topic, index in parts]


def _row(row: Mapping[str, Any]) -> str:
    leader = row["current_leader"]
    text = f"error={row['error_code']} leader={leader['leader_id'], leader['leader_epoch']}"
    if "acquired_records" not in row:
        return text
    names = ("first_offset", "last_offset", "delivery_count")
    acquired = [tuple(one[name] for name in names) for one in row["acquired_records"]]
    return f"{text} said={row['acknowledge_error_code']} acquired={acquired} records={_batches(row['records'])}"


def _batches(records: bytes | None) -> str:
    """Offsets of each batch, both inclusive; what is left over of an incomplete one."""
    if records is None:
        return "null"
    found, position = [], 0
    while len(records) - position >= 61:
        base, length = struct.unpack_from(">qi", records, position)
        if position + 12 + length > len(records):
            break
        (delta,) = struct.unpack_from(">i", records, position + 23)
        found.append(f"{base}-{base + delta}")
        position += 12 + length
    rest = len(records) - position
    return f"[{' '.join(found)}]{f' and {rest} bytes' if rest else ''}"
