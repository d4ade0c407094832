"""The largest bodies of legal shape: for each request, version and array, as many elements as one MiB holds.

Generated from the declarations alone, so that a request that is served later is here without a line of its own. A body
has one array that is as long as the frame lets it be ("fanned"); the arrays around it have one element, those inside
its elements none or one. Names come in three kinds:

    known      names, groups and partitions that the broker has, over and over
    unknown    each another one that there is not
    repeated   one that there is, as often as it fits
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import ArrayOf, Kind, Struct, fields_of
from sordini.protocol.decoding import cost_of
from sordini.protocol.primitives import NUMBER_COST, NUMBERS_PER_ROW, Blob, Fixed, Text
from sordini.protocol.served_apis import APIS, Api
from tests.support.builders import a_batch
from tests.support.unit_broker import topic_id_of

BODY_BYTES = 1 << 20
KNOWN_TOPICS = tuple(f"t{number}" for number in range(20))
KNOWN_PARTITIONS = 5
KNOWN_GROUPS = tuple(f"g{number}" for number in range(20))

KNOWN, UNKNOWN, REPEATED = "known", "unknown", "repeated"
NAMES = (KNOWN, UNKNOWN, REPEATED)

BATCH = bytes(a_batch())

Path = tuple[str, ...]

GIVEN: dict[str, Any] = {
    "acks": 1,
    "broker_epoch": -1,
    "broker_id": 1,
    "config_operation": 0,
    "controller_epoch": 1,
    "controller_id": 1,
    "coordinator_key_type": 0,
    "current_leader_epoch": -1,
    "endpoint_type": 1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "key_type": 0,
    "last_fetched_epoch": -1,
    "max_bytes": 1 << 20,
    "max_num_offsets": 10,
    "max_wait_ms": 0,
    "member_epoch": -1,
    "partition_max_bytes": 1 << 20,
    "producer_epoch": -1,
    "producer_id": -1,
    "rebalance_timeout_ms": 10_000,
    "replica_id": -1,
    "replication_factor": 1,
    "response_partition_limit": 2_000,
    "retention_time_ms": -1,
    "session_epoch": -1,
    "session_timeout_ms": 10_000,
    "timeout_ms": 1_000,
    "timestamp": -1,
}
"""What fields hold that have no array around them or whose 0 would end the request at once."""

TOPIC_RESOURCE = 2


class Shape(NamedTuple):
    """One request at its largest."""

    api: Api
    version: int
    fanned: Path
    names: str
    inner: int
    """Elements of each array inside a fanned element."""

    @property
    def title(self) -> str:
        return f"{self.api.key.name} v{self.version} {'.'.join(self.fanned) or '-'} {self.names} {self.inner}"


def shapes(keys: frozenset[ApiKey] | None = None) -> Iterator[Shape]:
    """Every request (or those of `keys`) in every version served, each array fanned with each kind of names."""
    for api in APIS.values():
        if keys is None or api.key in keys:
            for version in range(api.min_version, api.max_version + 1):
                yield from shapes_of(api, version)


def first_and_last(keys: frozenset[ApiKey] | None = None) -> Iterator[Shape]:
    """As `shapes`, in the first and the last version alone: others are made of the same parts."""
    return (shape for shape in shapes(keys) if shape.version in (shape.api.min_version, shape.api.max_version))


def shapes_of(api: Api, version: int) -> Iterator[Shape]:
    """The shapes of one request in one version."""
    paths = list(_arrays(Struct(api.request), version))
    if not paths:
        yield Shape(api, version, (), KNOWN, 0)
    for path, has_arrays in paths:
        for names in NAMES:
            for inner in (0, 1) if has_arrays else (0,):
                yield Shape(api, version, path, names, inner)


def largest(shape: Shape, body_bytes: int = BODY_BYTES, cost_max: int | None = None) -> Any:
    """The message with as many elements as make a body of `body_bytes`, and count for `cost_max` at most."""
    few, more = _message(shape, 100), _message(shape, 200)
    sizes = [len(codecs.encode(message, shape.version)) for message in (few, more)]
    number = 200 + max(body_bytes - sizes[1], 0) * 100 // max(sizes[1] - sizes[0], 1) if shape.fanned else 0
    if cost_max is not None and shape.fanned:
        costs = [cost_of_all(Struct(shape.api.request), message) for message in (few, more)]
        number = min(number, 200 + (cost_max - costs[1]) * 100 // max(costs[1] - costs[0], 1))
    message = _message(shape, number)
    while (size := len(codecs.encode(message, shape.version))) > body_bytes and shape.fanned:
        number = min(number - 1, number * body_bytes // size)  # Names grow by a digit now and then.
        message = _message(shape, number)
    return message


def cost_of_all(kind: Kind, value: Any) -> int:
    """What the elements of all arrays in a message count for together."""
    if isinstance(kind, Struct) and value is not None:
        return sum(cost_of_all(field.kind, getattr(value, field.name)) for field in fields_of(kind.cls))
    if isinstance(kind, ArrayOf) and value:
        numbers = len(value) // NUMBERS_PER_ROW if cost_of(kind.element) == NUMBER_COST else 0
        return numbers + len(value) * cost_of(kind.element) + sum(cost_of_all(kind.element, item) for item in value)
    return 0


def _message(shape: Shape, number: int) -> Any:
    return _Writer(shape, number).structure(shape.api.request, ())


class _Writer:
    def __init__(self, shape: Shape, number: int) -> None:
        self._shape = shape
        self._number = number
        self._numbers = count()
        self._now = 0

    def structure(self, cls: type, path: Path) -> Any:
        made = {}
        for field in fields_of(cls):
            if field.spec.is_in(self._shape.version):
                here = (*path, field.name)
                made[field.name] = self._value(field.kind, here, cls)
        return cls(**made)

    def _value(self, kind: Kind, path: Path, cls: type) -> Any:
        if isinstance(kind, ArrayOf):
            return self._array(kind, path, cls)
        if isinstance(kind, Struct):
            return None if kind.nullable else self.structure(kind.cls, path)
        if isinstance(kind, Text):
            text = self._text(path, cls)
            return "" if text is None and not kind.nullable else text
        if isinstance(kind, Blob):
            return b""
        if isinstance(kind, Fixed):
            return self._fixed(kind, path)
        return BATCH

    def _array(self, kind: ArrayOf, path: Path, cls: type) -> list[Any]:
        fanned = self._shape.fanned
        if path == fanned:
            length = self._number
        elif path == fanned[: len(path)]:
            length = 1
        else:
            length = self._shape.inner if path[: len(fanned)] == fanned else 0
        made = []
        for _ in range(length):
            if path == fanned:
                self._now = next(self._numbers)
            made.append(self._value(kind.element, path, cls))
        return made

    def _text(self, path: Path, cls: type) -> str | None:
        name, shape = path[-1], self._shape
        is_fanned = path[: len(shape.fanned)] == shape.fanned
        number = self._now if is_fanned else 0
        if "member" in name or "instance" in name or "software" in name or name == "rack_id":
            return f"m{number}" if is_fanned and shape.names == UNKNOWN else ""
        if name in {"transactional_id", "metadata", "committed_metadata", "value", "protocol_name", "host_name"}:
            return "" if is_fanned else None if name in {"transactional_id", "protocol_name"} else ""
        if name in {"configuration_keys", "key"} or "configs" in path[:-1]:
            return "retention.ms" if shape.names != UNKNOWN else f"{number:x}"
        known = KNOWN_GROUPS if "group" in name or name == "coordinator_keys" else KNOWN_TOPICS
        if shape.names == UNKNOWN and is_fanned:
            return f"{number:x}"
        return self._known(known, path)

    def _known(self, known: tuple[str, ...], path: Path) -> str:
        fanned = self._shape.fanned
        is_one_of_many = self._shape.names == KNOWN and path[: len(fanned)] == fanned
        return known[self._now % len(known)] if is_one_of_many else known[0]

    def _fixed(self, kind: Fixed, path: Path) -> Any:
        name, shape = path[-1], self._shape
        if kind.letter == "?":
            return False
        if kind.letter == "16s":
            is_known = name == "topic_id" and shape.names != UNKNOWN and "topics" in shape.fanned
            return topic_id_of(self._known(KNOWN_TOPICS, path)) if is_known else bytes(16)
        if name in GIVEN:
            return GIVEN[name]
        if name == "resource_type":
            return TOPIC_RESOURCE
        if name == "resource_types":
            return TOPIC_RESOURCE
        if (
            kind.letter in "iq"
            and ("partition" in name or "index" in name)
            and path[: len(shape.fanned)] == shape.fanned
        ):
            if shape.names == KNOWN:
                return self._now % KNOWN_PARTITIONS
            return self._now if shape.names == UNKNOWN else 0
        return 0


def _arrays(kind: Struct, version: int, path: Path = ()) -> Iterator[tuple[Path, bool]]:
    """Where a message has arrays, and whether their elements have some, too."""
    for field in fields_of(kind.cls):
        if not field.spec.is_in(version):
            continue
        here = (*path, field.name)
        if isinstance(field.kind, Struct):
            yield from _arrays(field.kind, version, here)
        elif isinstance(field.kind, ArrayOf):
            element = field.kind.element
            inside = list(_arrays(element, version, here)) if isinstance(element, Struct) else []
            yield here, bool(inside)
            yield from inside
