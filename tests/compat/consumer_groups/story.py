"""A situation as it is played before one broker: every request and answer becomes a line of its transcript."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tests.compat.consumer_groups.rendering import Names, Rendering
from tests.compat.consumer_groups.written import OffsetsReader, Written, in_order
from tests.compat.situations.definitions import Values
from tests.compat.situations.waiting import NOT_READY, until
from tests.compat.situations.wire import Broker, Conversation

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
"""Member epochs that are no epochs."""
Partitions = Mapping[str, Sequence[int]]


class Sent:
    """A request whose answer is read later, as it may have to wait for others."""

    def __init__(self, story: Story, on: str, api: str, version: int, correlation_id: int) -> None:
        self._story, self._on, self._api, self._version = story, on, api, version
        self._correlation_id = correlation_id

    def answer(self) -> Any:
        conversation = self._story.conversation(self._on)
        answer = conversation.receive(self._api, self._version, self._correlation_id)
        self._story.note_answer(self._on, self._api, self._version, answer)
        return answer


class Story:
    """One situation and its group, `g`."""

    def __init__(self, broker: Broker, offsets: OffsetsReader, topics: Mapping[str, tuple[bytes, int]]) -> None:
        """`topics`: the id and the number of partitions of those that are there in every situation."""
        self.broker = broker
        self.lines: list[str] = []
        self.names = Names(broker.prefix)
        self.group = ""
        self._offsets = offsets
        self._written: list[Written] = []
        self._number = 0
        self._full: dict[str, str] = {}
        self._rendering = Rendering(broker.definitions, self.names)
        self._conversations: dict[str, Conversation] = {}
        self.ids: dict[str, bytes] = {}
        self.epochs = defaultdict[str, int](int)
        """The last epoch that each member was given; 0 if it was given none."""
        for topic, (topic_id, partitions) in topics.items():
            self._know(topic, topic_id, partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for conversation in self._conversations.values():
            conversation.close()

    def _know(self, topic: str, topic_id: bytes, partitions: int) -> None:
        self.ids[topic] = topic_id
        self.names.hash_topic(self.full(topic), topic_id, partitions)
        self.names.name_topic(topic_id, topic)

    # --- the group and its topics ----------------------------------------------------------------

    def begin(self, number: int) -> None:
        """Take a group that has not been used, with a coordinator that serves."""
        self._number = number
        self.group = self.broker.name(f"g{number}")
        self.names.name(self.group, "g")
        wait_for_coordinator(self.broker, self.group)
        self._offsets.skip()

    def announce(self, name: str) -> None:
        """Have a name for a topic of this situation alone, which is not there."""
        self._full[name] = self.broker.name(f"{name}-{self._number}")
        self.names.name(self._full[name], name)

    def topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic of this situation alone, and return its full name."""
        self.announce(name)
        full = self.broker.create_led(f"{name}-{self._number}", partitions)
        self._know(name, self.broker.topic_id(full), partitions)
        self._wait_until_assignable(full)
        return full

    def full(self, topic: str) -> str:
        """The name of a topic as the broker has it."""
        return self._full.get(topic) or self.broker.name(topic)

    def _wait_until_assignable(self, full: str) -> None:
        """Until the group coordinator has the topic, too."""
        probe = {"group_id": self.broker.name("probe"), "member_id": "probe", "rebalance_timeout_ms": 1_000}
        probe |= {"subscribed_topic_names": [full], "topic_partitions": []}
        until(
            lambda: self.broker.ask("ConsumerGroupHeartbeat", 1, **probe),
            lambda answer: answer["error_code"] == 0 and bool(answer["assignment"]["topic_partitions"]),
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic of this situation, and wait until the broker has forgotten it, and it can be made again."""
        full = self.full(name)
        answer = self.broker.ask("DeleteTopics", 5, topic_names=[full], timeout_ms=10_000)
        assert answer["responses"][0]["error_code"] == 0, answer
        until(
            lambda: self.broker.ask("Metadata", 9, topics=[{"name": full}], allow_auto_topic_creation=False),
            lambda seen: seen["topics"][0]["error_code"] != 0,
        )
        topics = [{"name": full, "num_partitions": 1, "replication_factor": 1}]
        until(  # With ZooKeeper the controller has it until its files are gone.
            lambda: self.broker.ask("CreateTopics", 5, topics=topics, timeout_ms=10_000, validate_only=True),
            lambda seen: seen["topics"][0]["error_code"] == 0,
        )

    def grow(self, name: str, count: int) -> None:
        """Give a topic of this situation more partitions."""
        self.names.hash_topic(self.full(name), self.ids[name], count)
        topics = [{"name": self.full(name), "count": count, "assignments": None}]
        answer = self.broker.ask("CreatePartitions", 3, topics=topics, timeout_ms=10_000, validate_only=False)
        assert answer["results"][0]["error_code"] == 0, answer

    def count_partitions(self) -> None:
        """Note how many partitions a member gets and not which: with ids that are made by chance, that is chance, too."""
        self._rendering.is_counting = True

    # --- requests and answers --------------------------------------------------------------------

    def conversation(self, on: str) -> Conversation:
        if on not in self._conversations or self._conversations[on].is_closed:
            self._conversations[on] = self.broker.connect()
        return self._conversations[on]

    def send(self, api: str, version: int, *, on: str = "", **fields: Any) -> Sent:
        self.lines.append(f"> {api} v{version} {self._rendering.message(f'{api}Request', version, fields)}".rstrip())
        return Sent(self, on, api, version, self.conversation(on).send(api, version, **fields))

    def ask(self, api: str, version: int, *, on: str = "", **fields: Any) -> Any:
        return self.send(api, version, on=on, **fields).answer()

    def note_exchange(self, api: str, version: int, request: Values, answer: Any) -> None:
        """As if it had been asked for the transcript, with an answer of which only a part is kept."""
        self.lines.append(f"> {api} v{version} {self._rendering.message(f'{api}Request', version, request)}".rstrip())
        self.note_answer("", api, version, answer)

    def note_answer(self, on: str, api: str, version: int, answer: Any) -> None:
        if isinstance(answer, dict):
            answer = self._rendering.message(f"{api}Response", version, answer)
        self.lines.append(f"< {answer}".rstrip())

    def beat(self, member: str = "a", epoch: int | None = None, version: int = 1, **fields: Any) -> Any:
        """A heartbeat, with the last epoch of the member. `owned`: partitions by topic; `topics`, `regex`: subscription."""
        owned = fields.pop("owned", None)
        if owned is not None:
            fields["topic_partitions"] = self.partitions(owned)
        if (topics := fields.pop("topics", None)) is not None:
            fields["subscribed_topic_names"] = [self.full(topic) for topic in topics]
        if "regex" in fields:
            fields["subscribed_topic_regex"] = fields.pop("regex")
        if "rebalance_ms" in fields:
            fields["rebalance_timeout_ms"] = fields.pop("rebalance_ms")
        epoch = self.epochs[member] if epoch is None else epoch
        fields = {"group_id": self.group, "member_id": member, "member_epoch": epoch, **fields}
        answer = self.ask("ConsumerGroupHeartbeat", version, **fields)
        if isinstance(answer, dict) and answer["member_epoch"] > 0:
            self.epochs[answer["member_id"]] = answer["member_epoch"]
        return answer

    def join(self, member: str = "a", topics: Sequence[str] | None = ("foo",), **fields: Any) -> Any:
        """The first heartbeat of a member, whole."""
        return self.beat(member, JOIN, **{"topics": topics, "owned": {}, "rebalance_ms": 60_000, **fields})

    def leave(self, member: str = "a", epoch: int = LEAVE, **fields: Any) -> Any:
        return self.beat(member, epoch, **fields)

    def settle(self, member: str, **fields: Any) -> Any:
        """Beat until the epoch has moved on, as what is done in the background shows some time; only the last is noted."""
        epoch = self.epochs[member]

        def is_settled(answer: Any) -> bool:
            return bool(answer["error_code"] != 0 or answer["member_epoch"] > epoch)

        return self.last(lambda: self.beat(member, **fields), is_settled)

    def wait_for_assignment(self, member: str, **fields: Any) -> Any:
        """Beat until an assignment comes."""
        return self.last(lambda: self.beat(member, **fields), lambda answer: answer["assignment"] is not None)

    def last(self, ask: Callable[[], Any], is_good: Callable[[Any], bool]) -> Any:
        """Ask until the answer is good; only the last is noted."""

        def again() -> Any:
            del self.lines[noted:]
            return ask()

        noted = len(self.lines)
        answer = until(again, is_good)
        self.lines[noted] = self.lines[noted].replace("> ", ">> ", 1)
        return answer

    def partitions(self, owned: Partitions) -> list[Values]:
        return [
            {"topic_id": self.ids.get(topic, topic.encode().ljust(16, b"?")), "partitions": list(numbers)}
            for topic, numbers in owned.items()
        ]

    def describe(self, version: int = 1) -> Any:
        return self.ask("ConsumerGroupDescribe", version, group_ids=[self.group])

    def describe_until(self, is_good: Callable[[Any], bool]) -> None:
        """Describe until the members are as wanted; only the last answer is noted."""
        noted = len(self.lines)

        def members() -> Any:
            del self.lines[noted:]
            return self.describe()["groups"][0]["members"]

        until(members, is_good)

    def wait_for_classic_state(self, state: str) -> None:
        """Until a request that was sent and is not answered has brought a classic group into the state; not noted.

        Requests of several connections are handled in any order.
        """
        until(
            lambda: self.broker.ask("DescribeGroups", 5, groups=[self.group]),
            lambda answer: answer["groups"][0]["group_state"] == state,
        )

    # --- records ---------------------------------------------------------------------------------

    def records(self, *, up_to: str = "") -> None:
        """Note what has been written about the group since the last call; waits until a record of that kind is there."""
        until(lambda: self._has_written(up_to), bool)
        self.lines += [self._record(record) for record in in_order(self._written, self.names.text)]
        self._written.clear()

    def _has_written(self, kind: str) -> bool:
        """Whether a record of the kind is among those that are not noted; with no kind, true."""
        self._written += [record for record in self._offsets.read() if record.group_id == self.group]
        return not kind or any(record.kind == kind and record.value for record in self._written)

    def _record(self, record: Written) -> str:
        mark = "*" if record.is_first_of_batch else "+"
        key = {name: value for name, value in record.key.items() if value != self.group}
        about = self._rendering.message(f"{record.kind}Key", 0, key)
        if record.value is None:
            return f"{mark} {record.kind}({about}): deleted"
        inner = self._rendering.message(f"{record.kind}Value", record.value_version, record.value)
        return f"{mark} {record.kind}({about}): v{record.value_version} {{{inner}}}"


def wait_for_coordinator(broker: Broker, group_id: str) -> None:
    """Until the group's coordinator serves; the first request creates the offsets topic."""
    until(
        lambda: broker.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group_id]),
        lambda found: found["coordinators"][0]["error_code"] == 0,
    )
    until(
        lambda: broker.ask("OffsetFetch", 8, groups=[{"group_id": group_id, "topics": []}]),
        lambda fetched: fetched["groups"][0]["error_code"] not in NOT_READY,
    )
