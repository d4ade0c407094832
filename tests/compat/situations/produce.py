"""Produce with v2 batches: acknowledgements, refusals, and lies in every field of a batch."""

import gzip
from typing import Any

from tests.compat.situations.batches import THEN, batch, describe, record
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker, Conversation, produce_fields


@situation("Produce v3 to v11 with acks -1 and 1")
def every_version(broker: Broker) -> Any:
    topic = broker.create("produce-versions")
    return {
        f"v{version} acks {acks}": broker.ask("Produce", version, **produce_fields(topic, batch(3), acks=acks))
        for version in range(3, 12)
        for acks in (-1, 1)
    }


@situation("Produce with acks 0 is not answered")
def no_acks(broker: Broker) -> Any:
    topic = broker.create("produce-acks-0")
    conversation = broker.connect()
    try:
        conversation.send("Produce", 9, **produce_fields(topic, batch(2), acks=0))
        next_id = conversation.send("ApiVersions", 0)
        next_answer = conversation.receive("ApiVersions", 0, next_id)
        after = conversation.ask("Produce", 9, **produce_fields(topic, batch(1), acks=1))
    finally:
        conversation.close()
    return {"next": next_answer["error_code"], "produced after it": after}


@situation("Produce with acks 0 that fails closes the connection")
def no_acks_error(broker: Broker) -> Any:
    conversation = broker.connect()
    try:
        conversation.send("Produce", 9, **produce_fields(broker.name("acks-0-nowhere"), batch(2), acks=0))
        return conversation.receive_frame()
    finally:
        conversation.close()


@situation("Produce with acks 2 and -2")
def wrong_acks(broker: Broker) -> Any:
    topic = broker.create("produce-acks-2")
    return {acks: broker.produce(topic, batch(1), acks=acks) for acks in (2, -2)}


@situation("Produce to an unknown topic and to an unknown partition")
def unknown(broker: Broker) -> Any:
    topic = broker.create("produce-unknown")
    return {
        "topic": broker.produce(broker.name("produce-nowhere"), batch(1)),
        "partition 7": broker.produce(topic, batch(1), partition=7),
        "partition -1": broker.produce(topic, batch(1), partition=-1),
        "invalid topic name": broker.produce("in valid", batch(1)),
    }


@situation("Produce of several topics and partitions, some of them wrong")
def mixed(broker: Broker) -> Any:
    topic = broker.create("produce-mixed", partitions=2)
    data = [
        {
            "name": topic,
            "partition_data": [
                {"index": 1, "records": batch(1)},
                {"index": 9, "records": batch(1)},
                {"index": 0, "records": batch(1, crc=1)},
            ],
        },
        {"name": broker.name("nowhere"), "partition_data": [{"index": 0, "records": batch(1)}]},
    ]
    answer = broker.ask("Produce", 9, acks=-1, timeout_ms=1000, topic_data=data)
    return {
        f"{entry['name']} {partition['index']}": partition["error_code"]
        for entry in answer["responses"]
        for partition in entry["partition_responses"]
    }


@situation("Produce of no topics, and of no partitions")
def nothing(broker: Broker) -> Any:
    topic = broker.create("produce-nothing")
    return {
        "no topics": broker.ask("Produce", 9, acks=1, timeout_ms=1000, topic_data=[]),
        "no partitions": broker.ask(
            "Produce", 9, acks=1, timeout_ms=1000, topic_data=[{"name": topic, "partition_data": []}]
        ),
    }


@situation("Produce of null and of empty records")
def no_records(broker: Broker) -> Any:
    topic = broker.create("produce-null")
    # Apache Kafka never answers it, so the usual wait would only be longer.
    conversation = Conversation(broker.host, broker.port, broker.definitions, patience_s=2)
    answer = conversation.ask("Produce", 9, **produce_fields(topic, None))
    conversation.close()
    if not isinstance(answer, str):
        answer = answer["responses"][0]["partition_responses"][0]
    return {
        "null v9": answer,
        "empty v3": broker.produce(topic, b"", version=3),
        "empty v9": broker.produce(topic, b"", version=9),
    }


@situation("Produce of the same partition twice in one request")
def same_partition_twice(broker: Broker) -> Any:
    topic = broker.create("produce-twice")
    partitions = [{"index": 0, "records": batch(2)}, {"index": 0, "records": batch(3)}]
    answer = broker.ask(
        "Produce", 9, acks=1, timeout_ms=1000, topic_data=[{"name": topic, "partition_data": partitions}]
    )
    return [answer, broker.produce(topic, batch(1))]


def _refusals(broker: Broker, topic: str, cases: dict[str, bytes]) -> Any:
    """Each case's answer, and where the next good batch landed: nothing may have been written."""
    seen = {name: broker.produce(topic, data) for name, data in cases.items()}
    seen["a good batch after them"] = broker.produce(topic, batch(1))
    return seen


@situation("Produce of a batch with a bad CRC")
def bad_crc(broker: Broker) -> Any:
    return _refusals(broker, broker.create("produce-crc"), {"crc": batch(2, crc=12345)})


@situation("Produce of a batch with a bad magic")
def bad_magic(broker: Broker) -> Any:
    topic = broker.create("produce-magic")
    return _refusals(broker, topic, {f"magic {magic}": batch(2, magic=magic) for magic in (0, 1, 3, -1)})


@situation("Produce of a batch whose size lies")
def bad_size(broker: Broker) -> Any:
    topic = broker.create("produce-size")
    good = batch(2)
    sizes = {"0": 0, "-1": -1, "10": 10, "48": 48, "one less": len(good) - 13, "one more": len(good) - 11}
    cases = {f"size {name}": batch(2, size=size) for name, size in sizes.items()}
    cases |= {f"cut at {end}": good[:end] for end in (1, 11, 17, 60, 61, len(good) - 1)}
    cases["bytes behind it"] = good + b"\x00" * 5
    cases["twenty bytes behind it"] = good + b"\x00" * 20
    return _refusals(broker, topic, cases)


@situation("Produce of a batch whose record count lies")
def bad_count(broker: Broker) -> Any:
    topic = broker.create("produce-count")
    counts = (0, 1, 3, -1, 2**31 - 1)
    cases = {f"count {count} of 2": batch(2, count=count) for count in counts}
    cases |= {
        f"count and last offset {count} of 2": batch(2, count=count, last_offset_delta=count - 1)
        for count in (1, 3, 2**31 - 1)
    }
    cases["no records at all"] = batch([])
    cases["no records, last offset 0"] = batch([], last_offset_delta=0)
    return _refusals(broker, topic, cases)


@situation("Produce of a batch whose lastOffsetDelta lies")
def bad_last_offset(broker: Broker) -> Any:
    topic = broker.create("produce-last-offset")
    deltas = (0, 5, -1, 2**31 - 1)
    return _refusals(broker, topic, {f"delta {delta} of 1": batch(2, last_offset_delta=delta) for delta in deltas})


@situation("Produce of records whose offset deltas are not 0, 1, 2")
def bad_offset_deltas(broker: Broker) -> Any:
    topic = broker.create("produce-offset-deltas")
    gap = batch([record(b"a"), record(b"b", offset_delta=5)], last_offset_delta=1)
    same = batch([record(b"a"), record(b"b")])
    return _refusals(broker, topic, {"a gap": gap, "the same twice": same})


@situation("Produce of a batch with a base offset other than 0")
def bad_base_offset(broker: Broker) -> Any:
    topic = broker.create("produce-base-offset")
    return _refusals(broker, topic, {f"base {base}": batch(2, base_offset=base) for base in (7, -3)})


@situation("Produce of a control batch")
def control_batch(broker: Broker) -> Any:
    topic = broker.create("produce-control")
    marker = record(b"\x00\x00\x00\x00\x00\x00", key=b"\x00\x00\x00\x01")
    cases = {
        "control": batch([marker], attributes=0x20),
        "transactional control": batch([marker], attributes=0x30, producer_id=5, producer_epoch=0),
    }
    return _refusals(broker, topic, cases)


@situation("Produce of two batches for one partition")
def two_batches(broker: Broker) -> Any:
    return _refusals(broker, broker.create("produce-two"), {"two": batch(1) + batch(2)})


@situation("Produce of an unknown codec, and of bytes that are not what their codec says")
def bad_codec(broker: Broker) -> Any:
    topic = broker.create("produce-codec")
    cases = {f"codec {codec}": batch(2, attributes=codec) for codec in (5, 6, 7)}
    cases |= {
        f"garbage as codec {codec}": batch(2, attributes=codec, payload=b"garbage!" * 4) for codec in (1, 2, 3, 4)
    }
    cut = gzip.compress(record(b"x" * 100, offset_delta=0), mtime=0)[:-12]
    cases["gzip cut short"] = batch(1, attributes=1, payload=cut)
    return _refusals(broker, topic, cases)


@situation("Produce of gzip batches: right ones, and ones whose records lie")
def gzip_batches(broker: Broker) -> Any:
    topic = broker.create("produce-gzip")
    records = b"".join(record(b"value", offset_delta=i) for i in range(3))
    packed = gzip.compress(records, mtime=0)
    deltas = gzip.compress(record(b"a") + record(b"b", offset_delta=4), mtime=0)
    cases = {
        "right": batch(3, attributes=1, payload=packed),
        "count 4 of 3": batch(3, attributes=1, payload=packed, count=4, last_offset_delta=3),
        "count 2 of 3": batch(3, attributes=1, payload=packed, count=2, last_offset_delta=1),
        "a gap in the deltas": batch(2, attributes=1, payload=deltas),
        "bytes behind the records": batch(3, attributes=1, payload=gzip.compress(records + b"xx", mtime=0)),
    }
    return _refusals(broker, topic, cases)


@situation("Produce of a zstd batch before v7, where zstd is not known")
def zstd_too_early(broker: Broker) -> Any:
    import zstandard

    topic = broker.create("produce-zstd")
    packed = batch(1, attributes=4, payload=zstandard.compress(record(b"value")))
    return {version: broker.produce(topic, packed, version=version) for version in (3, 6, 7, 9)}


@situation("Produce of a batch above message.max.bytes")
def too_large(broker: Broker) -> Any:
    topic = broker.create("produce-large")
    small = broker.create("produce-small", max_message_bytes="200")
    exact = batch([record(b"x" * 120, key=None)])
    limit = broker.create("produce-exact", max_message_bytes=str(len(exact)))
    below = broker.create("produce-below", max_message_bytes=str(len(exact) - 1))
    return {
        "the default": broker.produce(topic, batch([record(b"x" * 2_000_000)])),
        "the topic's own": broker.produce(small, batch([record(b"x" * 200)])),
        "below it": broker.produce(small, batch([record(b"x" * 20)])),
        "exactly it": broker.produce(limit, exact),
        "one byte above it": broker.produce(below, exact),
    }


@situation("Produce of a record longer or shorter than it says")
def record_length(broker: Broker) -> Any:
    topic = broker.create("produce-record-length")
    value = b"0123456789"
    lengths = (0, 3, 16, 18, 1000, -1, -5, 2**31 - 1)
    cases = {f"length {length} of 17": batch([record(value, length=length)]) for length in lengths}
    return _refusals(broker, topic, cases)


@situation("Produce of a record that claims 2^30 headers, and -1")
def header_count(broker: Broker) -> Any:
    topic = broker.create("produce-headers")
    cases = {f"{count} headers": batch([record(b"v", header_count=count)]) for count in (2**30, -1, 1)}
    return _refusals(broker, topic, cases)


@situation("Produce of a record with a null header key")
def null_header_key(broker: Broker) -> Any:
    topic = broker.create("produce-null-header")
    # attributes, timestamp delta, offset delta, key "k", value "v", one header with key length -1
    body = b"\x00\x00\x00\x02k\x02v\x02\x01\x02x"
    return _refusals(broker, topic, {"null header key": batch([bytes([len(body) * 2]) + body])})


@situation("Produce to a compacted topic without a key")
def compacted(broker: Broker) -> Any:
    topic = broker.create("produce-compacted", cleanup_policy="compact")
    keyless = record(b"no key", key=None, offset_delta=1)
    seen = {
        "key": broker.produce(topic, batch(2)),
        "no key": broker.produce(topic, batch([record(b"no key", key=None)])),
        "the second has none": broker.produce(topic, batch([record(b"a"), keyless])),
        "the second has none v7": broker.produce(topic, batch([record(b"a"), keyless]), version=7),
        "empty key": broker.produce(topic, batch([record(b"v", key=b"")])),
    }
    seen["a good batch after them"] = broker.produce(topic, batch(1))
    return seen


@situation("Produce of timestamps too old or too far ahead for the topic")
def timestamps(broker: Broker) -> Any:
    old = broker.create("produce-old", message_timestamp_before_max_ms="3600000")
    ahead = broker.create("produce-ahead", message_timestamp_after_max_ms="3600000")
    difference = broker.create("produce-difference", message_timestamp_difference_max_ms="3600000")
    far = 4_000_000_000_000
    return {
        "old": broker.produce(old, batch(3)),
        "old v7": broker.produce(old, batch(3), version=7),
        "ahead": broker.produce(ahead, batch(2, base_timestamp=far)),
        "old by the older setting": broker.produce(difference, batch(2)),
        "ahead by the older setting": broker.produce(difference, batch(2, base_timestamp=far)),
        "old where only ahead is refused": broker.produce(ahead, batch(1)),
        "max timestamp lies": broker.produce(ahead, batch(2, max_timestamp=THEN + 99)),
        "no timestamps": broker.produce(ahead, batch([record(b"v")], base_timestamp=-1, max_timestamp=-1)),
        "negative timestamps": broker.produce(ahead, batch([record(b"v")], base_timestamp=-9, max_timestamp=-9)),
    }


@situation("Produce to a topic with LogAppendTime")
def log_append_time(broker: Broker) -> Any:
    topic = broker.create("produce-append-time", message_timestamp_type="LogAppendTime")
    fixed = broker.create("produce-create-time")
    return {
        "answer": broker.produce(topic, batch(2)),
        "attribute set by the client": broker.produce(fixed, batch(2, attributes=8)),
        "attribute set here": broker.produce(topic, batch(2, attributes=8))["error_code"],
        "ahead is no matter": broker.produce(topic, batch(1, base_timestamp=4_000_000_000_000)),
    }


@situation("Produce of compressed batches, and of some without times, to topics of both clocks")
def compressed_times(broker: Broker) -> Any:
    """The bounds on times look into compressed batches; the log's own clock only rewrites what is around them."""
    bounds = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"}
    fixed = broker.create("produce-times-fixed")
    bounded = broker.create("produce-times-bounded", **bounds)
    own = broker.create("produce-times-own", message_timestamp_type="LogAppendTime", **bounds)
    timeless = [record(b"v", offset_delta=n) for n in range(2)]
    mixed = [record(b"v"), record(b"w", offset_delta=1, timestamp_delta=THEN + 1)]
    sent = {
        "gzip": _gzipped([record(b"v%d" % n, offset_delta=n, timestamp_delta=n) for n in range(3)], THEN, THEN + 2),
        "gzip whose max timestamp lies": _gzipped([record(b"v")], THEN, THEN + 9),
        "gzip without times": _gzipped(timeless, -1, -1),
        "no times": batch(timeless, base_timestamp=-1, max_timestamp=-1),
        "one without a time": batch(mixed, base_timestamp=-1, max_timestamp=THEN),
    }
    seen: dict[str, Any] = {}
    for name, data in sent.items():
        seen[f"{name}, the producer's time"] = broker.produce(fixed, data)
        seen[f"{name}, bounded"] = broker.produce(bounded, data)
        seen[f"{name}, the log's time"] = broker.produce(own, data)
    for topic in (fixed, bounded, own):
        read = broker.ask("Fetch", 4, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=10**6, isolation_level=0,
                          topics=[{"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10**6}]}])  # fmt: skip
        entries = describe(read["responses"][0]["partitions"][0]["records"])["entries"]
        for entry in entries:
            if topic == own:
                entry["max_timestamp"] = entry["max_timestamp"] > THEN * 1.01
        seen[f"what {topic.rpartition('-')[2]} holds"] = entries
    return seen


def _gzipped(records: list[bytes], base_timestamp: int, max_timestamp: int) -> bytes:
    payload = gzip.compress(b"".join(records), mtime=0)
    times = {"base_timestamp": base_timestamp, "max_timestamp": max_timestamp}
    return batch(records, attributes=1, payload=payload, **times)


@situation("Produce of a transactional batch outside any transaction")
def transactional(broker: Broker) -> Any:
    topic = broker.create("produce-transactional")
    own = broker.ask("InitProducerId", 1, transactional_id=None, transaction_timeout_ms=1000)["producer_id"]
    data = batch(1, attributes=0x10, producer_id=own, producer_epoch=0, base_sequence=0)
    no_producer = batch(1, attributes=0x10)
    return {
        "no transactional id in the request": broker.produce(topic, data),
        "no producer id": broker.produce(topic, no_producer),
        "a transactional id, plain batch": broker.ask(
            "Produce", 9, transactional_id="unheard-of", **produce_fields(topic, batch(1))
        ),
    }


@situation("Produce with min.insync.replicas above the replicas there are")
def not_enough_replicas(broker: Broker) -> Any:
    topic = broker.create("produce-min-isr", min_insync_replicas="2")
    return {acks: broker.produce(topic, batch(1), acks=acks) for acks in (-1, 1)}


@situation("Produce to a topic that recompresses, seen in the next fetch")
def recompressed(broker: Broker) -> Any:
    topic = broker.create("produce-gzip-topic", compression_type="gzip")
    plain = broker.create("produce-uncompressed-topic", compression_type="uncompressed")
    packed = gzip.compress(record(b"v"), mtime=0)
    seen = {"plain to gzip": broker.produce(topic, batch(2))}
    seen["gzip to plain"] = broker.produce(plain, batch(1, attributes=1, payload=packed))
    for name in (topic, plain):
        fetched = broker.ask(
            "Fetch",
            4,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            topics=[{"topic": name, "partitions": [{"partition": 0, "partition_max_bytes": 9999}]}],
        )
        stored = fetched["responses"][0]["partitions"][0]
        for entry in describe(stored.pop("records"))["entries"]:
            del entry["size"]  # Two makers of gzip need not find the same bytes.
            seen[f"stored in {name}"] = entry
    return seen
