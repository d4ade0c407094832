"""Produce v0 to v2 with message sets, and reading them back."""

import gzip
from typing import Any

from tests.compat.situations.batches import THEN, batch, describe, message
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


def _read(broker: Broker, topic: str, version: int, offset: int = 0) -> Any:
    fields: dict[str, Any] = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0}
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 100_000}
    answer = broker.ask("Fetch", version, topics=[{"topic": topic, "partitions": [partition]}], **fields)
    return answer if isinstance(answer, str) else answer["responses"][0]["partitions"][0]


@situation("Produce v0 to v2 with plain message sets")
def plain(broker: Broker) -> Any:
    topic = broker.create("old-plain")
    seen = {}
    for version in (0, 1, 2):
        for magic in (0, 1):
            data = message(b"a", magic=magic) + message(b"b", magic=magic, offset=1)
            seen[f"v{version} magic {magic}"] = broker.produce(topic, data, version=version, acks=1)
    seen["read v4"] = _read(broker, topic, 4)
    seen["read v2"] = _read(broker, topic, 2)
    seen["read v0"] = _read(broker, topic, 0)
    return seen


@situation("Produce v0 to v2 with a v2 batch")
def new_batch(broker: Broker) -> Any:
    topic = broker.create("old-new-batch")
    return {version: broker.produce(topic, batch(1), version=version, acks=1) for version in (0, 1, 2)}


@situation("Produce v3 and later with a message set")
def set_too_late(broker: Broker) -> Any:
    topic = broker.create("old-late")
    return {
        f"v{version} magic {magic}": broker.produce(topic, message(b"a", magic=magic), version=version)
        for version in (3, 8, 9)
        for magic in (0, 1)
    }


@situation("Produce v2 of a message set that lies")
def lies(broker: Broker) -> Any:
    topic = broker.create("old-lies")
    good = message(b"value", magic=1)
    cases = {
        "bad crc": message(b"a", magic=1, crc=1),
        "bad crc magic 0": message(b"a", magic=0, crc=1),
        "cut short": good[:-2],
        "bytes behind it": good + b"\x00" * 7,
        "codec 4 in magic 1": message(b"a", magic=1, attributes=4),
        "codec 7 in magic 1": message(b"a", magic=1, attributes=7),
        "garbage gzip": message(b"garbage!", magic=1, attributes=1),
        "two magics": message(b"a", magic=0) + message(b"b", magic=1, offset=1),
        "the second is bad": good + message(b"b", magic=1, offset=1, crc=3),
        "the offsets repeat": good + good,
        "null value": message(None, magic=1),
        "timestamp -1": message(b"x", magic=1, timestamp=-1),
    }
    seen = {name: broker.produce(topic, data, version=2) for name, data in cases.items()}
    seen["a good one after them"] = broker.produce(topic, good, version=2)
    return seen


@situation("Produce v2 of a gzip message set is read back whole")
def compressed(broker: Broker) -> Any:
    topic = broker.create("old-gzip")
    inner = b"".join(message(b"v%d" % i, magic=1, offset=i, timestamp=THEN + i) for i in range(3))
    wrapper = message(gzip.compress(inner, mtime=0), magic=1, key=None, attributes=1, offset=2)
    nested_inner = message(gzip.compress(inner, mtime=0), magic=1, key=None, attributes=1, offset=2)
    nested = message(gzip.compress(nested_inner, mtime=0), magic=1, key=None, attributes=1, offset=2)
    seen = {
        "answer": broker.produce(topic, wrapper, version=2),
        "a wrapper in a wrapper": broker.produce(topic, nested, version=2),
        "an empty wrapper": broker.produce(
            topic, message(gzip.compress(b"", mtime=0), magic=1, key=None, attributes=1), version=2
        ),
    }
    stored = _read(broker, topic, 4)
    for entry in describe(stored.pop("records"))["entries"]:
        del entry["size"]  # Two makers of gzip need not find the same bytes.
        seen[f"stored at {entry['base_offset']}"] = entry
    seen["the answer around it"] = stored
    return seen


@situation("a v2 batch read by Fetch v0 to v3 comes as a message set")
def down_converted(broker: Broker) -> Any:
    topic = broker.create("old-down")
    broker.produce(topic, batch(3))
    broker.produce(topic, batch(2))
    seen = {
        f"v{version} from {offset}": _read(broker, topic, version, offset)
        for version in (0, 1, 2, 3)
        for offset in (0, 1, 4)
    }
    seen["v4 from 1"] = _read(broker, topic, 4, 1)
    return seen
