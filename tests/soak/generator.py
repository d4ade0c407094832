"""Requests of every API and version that is served, made from the declarations: by chance, and always alike by seed.

    a value = what a client would send, or a bound of its kind, or nonsense; by the name of its field
    a frame = a request, whole, or damaged: bits turned, bytes cut off or put in, another API's number, a wrong length

Names come from short lists: a broker keeps the topics, groups and members that it gets, and its memory can only be
expected to stay flat if there is a bounded number of them. One topic and one group are in no list: those of the honest
client, which no request here may delete. For the same reason no setting of the broker is named.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sordini.protocol import codecs, primitives
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import EMPTY, ArrayOf, Field, Kind, Struct, fields_of
from sordini.protocol.headers import request_header
from sordini.protocol.records.batch import build_batch
from sordini.protocol.served_apis import APIS, INTER_BROKER_APIS, Api
from tests.support.builders import an_idempotent_batch, some_records

BITS: Final = {"b": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64}
TOPICS: Final = ("fuzz-0", "fuzz-1", "fuzz-2", "fuzz.3", "fuzz_4", "fuzz-compacted", "fuzz-gone", "fuzz-new")
GROUPS: Final = ("group-0", "group-1", "group-2", "group-\u00e4")
HOSTILE: Final = (
    "",
    ".",
    "..",
    "../../x",
    "/etc",
    "a/b",
    "a\nb",
    "a b",
    "\0",
    "\x1b[2J",
    "%s%n{0}",
    "\u202e\U0001f4a5",
    "x" * 249,
    "x" * 255,
    "x" * 300,
    "x" * 30_000,
    "__consumer_offsets",
    "__transaction_state",
    "-1",
    "2147483648",
)
WORDS: Final[Mapping[str, Sequence[str]]] = {
    "group": GROUPS,
    "member": ("", "member-0", "test-8a5c"),
    "instance": ("static-0", "static-1"),
    "transactional": ("tx-0", "tx-1"),
    "key": ("cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes", *GROUPS),
    "value": ("compact", "delete", "-1", "1048576", "1000"),
    "host": ("127.0.0.1", "localhost"),
    "listener": ("PLAINTEXT",),
    "protocol": ("consumer", "range", "roundrobin"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256"),
    "resource_name": (*TOPICS, "0", "1", "DEBUG"),
    "rack": ("a", "b"),
    "cluster": ("0123456789abcdefghijkl",),
    "path": ("/tmp", "data"),
}
"""Words for fields whose name has this in it; for any other the names of topics."""
SMALL: Final = (-2, -1, 0, 0, 0, 1, 1, 2, 3, 5, 100)
BROKER_RESOURCES: Final = (4, 8)
"""Resource types of DescribeConfigs and its like: a broker, and its loggers."""
COUNT_MAX: Final = 100


class Frame(NamedTuple):
    """What goes over a connection, length and all."""

    data: bytes
    api: ApiKey
    version: int
    is_whole: bool
    """Whether it is a request as its declaration says: it has an answer, or closes the connection."""
    has_answer: bool


class Generator:
    """Draws requests. Two of one seed draw the same, whatever the broker answers."""

    def __init__(self, seed: object, topic_ids: Sequence[bytes] = (), only: frozenset[ApiKey] | None = None) -> None:
        """`topic_ids` are those of TOPICS, where they are known; `only` names the APIs, else all that are served."""
        self.chance = random.Random(str(seed))
        self._topic_ids = topic_ids or [bytes([number]) * 16 for number in range(4)]
        self._apis = [api for api in APIS.values() if only is None or api.key in only]
        self._words = {name: tuple(words) for name, words in WORDS.items()}

    def frame(self, correlation_id: int) -> Frame:
        """A request, one in twelve of them damaged: after most of those the connection closes."""
        chance = self.chance
        api = chance.choice(self._apis)
        version = chance.randint(api.min_version, api.max_version)
        message = self.message(api, version)
        client_id = chance.choice(("soak", "soak", None, chance.choice(HOSTILE)))
        body = request_header(api, version, correlation_id, client_id) + codecs.encode(message, version)
        has_answer = not (api.key == ApiKey.PRODUCE and message.acks == 0)
        if chance.random() > 1 / 12:
            return Frame(struct.pack(">i", len(body)) + body, ApiKey(api.key), version, True, has_answer)
        return Frame(self._damaged(bytearray(body)), ApiKey(api.key), version, False, has_answer)

    def message(self, api: Api, version: int) -> Any:
        """A request that can be encoded in this version."""
        message = self._struct(api.request, version)
        _tame(api.key, message)
        return message

    # Values.

    def _struct(self, cls: type, version: int, depth: int = 0) -> Any:
        made = cls()
        for field in fields_of(cls):
            if field.spec.is_in(version):
                setattr(made, field.name, self._field(field, version, depth))
        return made

    def _field(self, field: Field, version: int, depth: int) -> Any:
        chance, spec = self.chance, field.spec
        if spec.tag is not None and chance.random() < 0.5 and (spec.default is not EMPTY):
            return spec.default
        if (field.is_nullable_in(version) or (spec.tag is not None and isinstance(field.kind, Struct))) and (
            chance.random() < 0.2
        ):
            return None
        return self._value(field.kind, field.name, version, depth)

    def _value(self, kind: Kind, name: str, version: int, depth: int) -> Any:
        chance = self.chance
        match kind:
            case Struct():
                return self._struct(kind.cls, version, depth + 1)
            case ArrayOf():
                return [self._value(kind.element, name, version, depth) for _ in range(self._count(depth))]
            case primitives.Text():
                return self._text(name)
            case primitives.Fixed():
                return self._number(kind, name)
            case primitives.RecordBytes():
                return self._records()
            case _:
                return chance.randbytes(chance.choice((0, 1, 20, 500)))

    def _count(self, depth: int) -> int:
        draw = self.chance.random()
        if draw < 0.99 or depth:
            return self.chance.choice((0, 1, 1, 1, 2, 3))
        return self.chance.randint(10, COUNT_MAX)

    def _text(self, name: str) -> str:
        chance = self.chance
        if chance.random() < 0.2:
            return chance.choice(HOSTILE)
        for part, words in self._words.items():
            if part in name:
                return chance.choice(words)
        return chance.choice(TOPICS)

    def _number(self, kind: primitives.Fixed, name: str) -> Any:
        chance = self.chance
        if kind.letter == "?":
            return chance.random() < 0.5
        if kind.letter == "16s":
            return chance.choice((bytes(16), chance.choice(self._topic_ids), chance.choice(self._topic_ids)))
        if kind.letter == "d":
            return chance.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
        bits = BITS[kind.letter]
        signed = kind.letter.islower()
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        draw = chance.random()
        if draw < 0.75 or ("epoch" in name and draw < 0.9):
            return min(max(chance.choice(SMALL), least), most)
        if draw < 0.9:
            return chance.choice((least, least + 1, most, most - 1, 0))
        return chance.randint(least, most)

    def _records(self) -> bytes:
        chance = self.chance
        count = chance.choice((1, 1, 3, 20))
        producer = {"producer_id": chance.choice((0, 1, 1000)), "sequence": chance.choice((0, 1, 3))}
        made: Callable[[], bytes] = chance.choice(
            (
                lambda: build_batch(some_records(count, key=chance.choice((None, b"k")))),
                lambda: build_batch(some_records(count), codec=chance.randint(1, 4)),
                lambda: an_idempotent_batch(count, **producer),  # type: ignore[arg-type]
                lambda: an_idempotent_batch(count, transactional=True, **producer),  # type: ignore[arg-type]
                lambda: b"",
                lambda: chance.randbytes(chance.choice((1, 60, 61, 500))),
            )
        )
        batch = made()
        if chance.random() < 0.3:
            return self._altered(bytearray(batch))
        return batch

    # Damage.

    def _altered(self, data: bytearray) -> bytes:
        """The bytes with some turned, cut off, or put in."""
        chance = self.chance
        for _ in range(chance.randint(1, 4)):
            if not data:
                return chance.randbytes(3)
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] ^= 1 << chance.randrange(8)
                case 1:
                    del data[place:]
                case 2:
                    data[place:place] = chance.randbytes(chance.randint(1, 9))
                case _:
                    data[place : place + 4] = struct.pack(">i", chance.choice((-1, 0, 2**31 - 1, -(2**31))))
        return bytes(data)

    def _damaged(self, body: bytearray) -> bytes:
        chance = self.chance
        kind = chance.randrange(4)
        if kind == 0:  # Another API or version, served or not.
            body[:4] = struct.pack(">hh", chance.choice((*APIS, 99, -1)), chance.choice((0, 1, 9, 99, -1)))
        elif kind == 1:  # A wrong length.
            wrong = chance.choice((-1, 0, 3, len(body) + 7, len(body) // 2, 2**31 - 1))
            return struct.pack(">i", wrong) + body
        else:  # The head as it was in one of two: else most would end there.
            head = bytes(body[:8]) if kind == 2 else b""
            body = bytearray(head + self._altered(body[len(head) :]))
        return struct.pack(">i", len(body)) + body


def _tame(key: int, message: Any) -> None:
    """Leave out what an administrator may do and an honest client would suffer from."""
    if key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        for resource in message.resources:
            if resource.resource_type in BROKER_RESOURCES:
                for entry in resource.configs:
                    entry.name = f"no.{entry.name[:100]}"
    elif key == ApiKey.CREATE_PARTITIONS:
        for topic in message.topics:
            topic.count = min(topic.count, 8)
    elif key == ApiKey.CREATE_TOPICS:
        for topic in message.topics:
            topic.num_partitions = min(topic.num_partitions, 8)


BETWEEN: Final = INTER_BROKER_APIS | {ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.LIST_OFFSETS}
"""Requests between brokers, with those of clients."""
