"""A situation of a share group whose records become dead letters (KIP-1191), and what is in the topic of these then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from sordini.protocol.records.batch import Record
from sordini.protocol.records.returned_records import returned_batches
from tests.compat.shares.judge import SET
from tests.compat.shares.story import ShareStory
from tests.compat.situations.batches import THEN
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2
ALLOWED: Final = "errors.deadletterqueue.group.enable"
AUTO_CREATION: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
DLQ: Final = "dlq."
LATEST: Final = -1


class Unwritten(NamedTuple):
    """States of records whose dead letters cannot be written, as `read_state` tells them."""

    waiting: str
    """Of a broker that writes them later."""
    given_up: str
    """Of one that does without them."""


class LetterStory(ShareStory):
    """The topic of dead letters is `dlq.d`."""

    def __init__(self, broker: Broker, number: int, *, waits: bool) -> None:
        """`waits`: dead letters that cannot be written are tried again."""
        super().__init__(broker, number)
        self._waits = waits
        self.dead = f"{DLQ}{self.full('d')}"

    def begin_letters(
        self, *sizes: int, dead: str | None = None, copies: bool = False, partitions: int = 1, **settings: object
    ) -> None:
        """A group of one member, batches of these sizes in partition 0, and dead letters for the group."""
        keys = {
            "errors.deadletterqueue.topic.name": self.dead if dead is None else dead,
            "errors.deadletterqueue.copy.record.enable": str(copies).lower(),
        }
        self.begin(partitions=partitions, **keys, **settings)
        if sizes:
            self.produce(*sizes)

    def create_dead(self, partitions: int = 1, name: str | None = None, **configs: object) -> None:
        """The topic; group ids may name it unless `configs` say otherwise."""
        name = name or self.dead
        values = {ALLOWED: "true", **{key.replace("_", "."): str(value) for key, value in configs.items()}}
        rows = [{"name": key, "value": value} for key, value in values.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": rows}
        answer = self.broker.ask("CreateTopics", 5, timeout_ms=10_000, topics=[topic])
        assert answer["topics"][0]["error_code"] == 0, answer
        assert until(lambda: self._ends(name, partitions), lambda ends: min(ends) >= 0) == [0] * partitions

    def configure_dead(self, **settings: object) -> None:
        """Change settings of the topic."""
        self._alter(TOPIC_RESOURCE, self.dead, {key.replace("_", "."): value for key, value in settings.items()})

    def let_topics_be_created(self, *, allowed: bool) -> None:
        """By the brokers, for dead letters."""
        self._alter(BROKER_RESOURCE, "", {AUTO_CREATION: str(allowed).lower()})

    def let_names_begin(self, prefix: str) -> None:
        """Those of topics of dead letters."""
        self._alter(BROKER_RESOURCE, "", {PREFIX: prefix})

    def _alter(self, kind: int, name: str, settings: dict[str, object]) -> None:
        said = {key: str(value) for key, value in settings.items()}
        configs = [{"name": key, "config_operation": SET, "value": value} for key, value in said.items()]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        answer = self.broker.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        assert answer["responses"][0]["error_code"] == 0, answer
        name = name or str(self.broker.ask("Metadata", 9, topics=[])["brokers"][0]["node_id"])
        assert until(lambda: self.configs(kind, name, said), lambda seen: seen == said) == said

    def configs(self, kind: int, name: str, keys: Iterable[str]) -> dict[str, str]:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
        answer = self.broker.ask("DescribeConfigs", 4, resources=[resource])
        return {row["name"]: row["value"] for row in sorted(answer["results"][0]["configs"], key=itemgetter("name"))}

    # --- what became of records --------------------------------------------------------------------------

    def unwritten(self, states: Unwritten) -> None:
        """Wait until records are given up without their dead letters, or surely wait for these."""
        wanted = states.waiting if self._waits else states.given_up
        self.lines.append(f"stored without dead letters: {until(self.read_state, lambda seen: seen == wanted)}")

    def await_letters(self, count: int, partitions: int = 1) -> None:
        """Wait until there are so many dead letters."""
        until(lambda: self._ends(self.dead, partitions), lambda ends: sum(ends) >= count and min(ends) >= 0)

    def letters(self, count: int, partitions: int = 1) -> None:
        """Note the dead letters, once there are so many."""
        self.await_letters(count, partitions)
        found = [self._letter(index, one) for index in range(partitions) for one in self._records(index)]
        self.lines += found or ["no dead letters"]

    def letters_if_waiting(self, count: int) -> None:
        """As `letters`, when those that could not be written can be; where they were given up there are none."""
        self.letters(count if self._waits else 0)

    def _ends(self, topic: str, partitions: int) -> list[int]:
        """The log ends; -1 for a partition that is not led, or not there."""
        rows = [{"partition_index": index, "timestamp": LATEST} for index in range(partitions)]
        answer = self.broker.ask("ListOffsets", 5, replica_id=-1, topics=[{"name": topic, "partitions": rows}])
        found = answer["topics"][0]["partitions"]
        return [-1 if row["error_code"] else row["offset"] for row in found]

    def _records(self, index: int) -> Iterator[Record]:
        position = 0
        while data := self._fetched(index, position):
            for batch in returned_batches(data, position, ()):
                position = batch.next_offset
                yield from batch.records

    def _fetched(self, index: int, position: int) -> bytes:
        rows = [{"partition": index, "fetch_offset": position, "partition_max_bytes": 1 << 20}]
        topics = [{"topic": self.dead, "partitions": rows}]
        fields = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": topics}
        row = self.broker.ask("Fetch", 11, **fields)["responses"][0]["partitions"][0]
        assert row["error_code"] == 0, row
        data: bytes = row["records"] or b""
        return data

    def _letter(self, index: int, record: Record) -> str:
        time = "of now" if record.timestamp > THEN else f"of {record.timestamp}"
        headers = ", ".join(f"{key}={self._named(value)}" for key, value in record.headers)
        return f"dead letter {index}:{record.offset} {time} key={record.key!r} value={record.value!r} {headers}"

    def _named(self, value: bytes | None) -> str | None:
        """Names of this situation by their letters."""
        names = {self.group.encode(): "g", **{self.full(name).encode(): name for name in self.ids if name != "?"}}
        return None if value is None else names.get(value, value.decode())
