"""AddPartitionsToTxn: which partitions belong to a transaction, and whose transaction it is."""

from typing import Any

from tests.compat.situations.members import wait_for_coordinator
from tests.compat.situations.producers import Producer, add_several, initialised
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker

OLD_VERSIONS = (0, 1, 2, 3)
"""Of clients: one transaction in a request."""


@situation("AddPartitionsToTxn v0 to v3 of new partitions, of the same again, and of more")
def every_version(broker: Broker) -> Any:
    one, two = broker.create("add-one", partitions=3), broker.create("add-two")
    seen = {}
    for version in OLD_VERSIONS:
        producer = initialised(broker, f"add-v{version}")
        rows = [{one: [0, 1]}, {one: [0, 1]}, {one: [1, 2], two: [0]}, {two: [0]}]
        seen[version] = [[producer.add(row, version), producer.describe()] for row in rows]
        producer.abort()
    return seen


@situation("AddPartitionsToTxn of unknown topics and partitions: all of them, or none")
def unknown(broker: Broker) -> Any:
    topic, nowhere = broker.create("add-known", partitions=2), broker.name("add-nowhere")
    producer = initialised(broker, "add-unknown")
    rows = {
        "topic": {nowhere: [0]},
        "partition": {topic: [7]},
        "partition -1": {topic: [-1]},
        "topic beside known": {topic: [0, 1], nowhere: [0]},
        "partition beside known": {topic: [0, 9, 1]},
    }
    seen = {f"{name} v{version}": producer.add(row, version) for name, row in rows.items() for version in OLD_VERSIONS}
    return seen | {"nothing is added": producer.describe()}


@situation("AddPartitionsToTxn of an unknown topic in an open transaction leaves that as it is")
def unknown_while_open(broker: Broker) -> Any:
    topic = broker.create("add-open", partitions=2)
    producer = initialised(broker, "add-open")
    producer.add({topic: [0]})
    refused = producer.add({topic: [1], broker.name("add-open-nowhere"): [0]})
    return [refused, producer.describe(), producer.commit()]


@situation("AddPartitionsToTxn of internal topics, alone and beside another")
def internal(broker: Broker) -> Any:
    topic = broker.create("add-internal")
    producer = initialised(broker, "add-internal")
    wait_for_coordinator(broker, "g")
    rows = {
        "offsets": {"__consumer_offsets": [0]},
        "states": {"__transaction_state": [0]},
        "beside another": {topic: [0], "__consumer_offsets": [0]},
    }
    seen = {f"{name} v{version}": producer.add(row, version) for name, row in rows.items() for version in (0, 3)}
    return seen | {"nothing is added": producer.describe()}


@situation("AddPartitionsToTxn of an empty topic name, and of names that no topic may have")
def odd_names(broker: Broker) -> Any:
    producer = initialised(broker, "add-odd")
    return {name[:20]: producer.add({name: [0]}) for name in ("", "a b", ".", "x" * 300)}


@situation("AddPartitionsToTxn of no topics, and of a topic without partitions")
def nothing(broker: Broker) -> Any:
    topic = broker.create("add-nothing")
    seen = {}
    for version in OLD_VERSIONS:
        producer = initialised(broker, f"add-nothing-v{version}")
        seen[version] = [
            producer.add({}, version),
            producer.state(),
            producer.add({topic: []}, version),
            producer.state(),
        ]
    return seen


@situation("AddPartitionsToTxn of no topics while a transaction is open")
def nothing_while_open(broker: Broker) -> Any:
    topic = broker.create("add-nothing-open")
    producer = initialised(broker, "add-nothing-open")
    producer.add({topic: [0]})
    return [producer.add({}), producer.describe(), producer.commit()]


@situation("AddPartitionsToTxn of one partition twice, and of one topic twice")
def twice(broker: Broker) -> Any:
    topic = broker.create("add-twice", partitions=2)
    seen = {}
    for version in (0, 3):
        producer = initialised(broker, f"add-twice-v{version}")
        rows = [{"name": topic, "partitions": [index]} for index in (0, 1)]
        seen[version] = [
            producer.add({topic: [0, 0]}, version),
            producer.add({}, version, topics=rows),
            producer.describe(),
        ]
    return seen


@situation("AddPartitionsToTxn with an older and a newer epoch than the producer's")
def wrong_epochs(broker: Broker) -> Any:
    topic = broker.create("add-epochs", partitions=2)
    producer = initialised(broker, "add-epochs")
    producer.init()
    seen: dict[str, Any] = {
        f"{state} epoch {epoch} v{version}": producer.add({topic: [0]}, version, producer_epoch=epoch)
        for state in ("Empty",)
        for epoch in (0, 2, -1, 2**15 - 1)
        for version in OLD_VERSIONS
    }
    producer.add({topic: [0]})
    seen |= {
        f"Ongoing epoch {epoch} v{version}": producer.add({topic: [1]}, version, producer_epoch=epoch)
        for epoch in (0, 2)
        for version in OLD_VERSIONS
    }
    return seen | {"described": producer.describe()}


@situation("AddPartitionsToTxn with another producer's id, and with ids that were never given")
def wrong_ids(broker: Broker) -> Any:
    topic = broker.create("add-ids")
    producer, other = initialised(broker, "add-ids"), broker.new_producer_id()
    ids = {"another": other, "never given": other + 10**9, "none": -1, "-2": -2}
    return {
        f"{name} v{version}": producer.add({topic: [0]}, version, producer_id=producer_id)
        for name, producer_id in ids.items()
        for version in OLD_VERSIONS
    } | {"described": producer.describe()}


@situation("AddPartitionsToTxn of a transactional id that is not known, and of an empty one")
def unknown_ids(broker: Broker) -> Any:
    topic = broker.create("add-unknown-id")
    producer, other = Producer(broker, "add-unknown-id"), broker.new_producer_id()
    asked = {
        "unknown": {"producer_id": other, "producer_epoch": 0},
        "unknown, no producer id": {},
        "empty": {"transactional_id": "", "producer_id": other, "producer_epoch": 0},
    }
    seen = {
        f"{name} v{version}": producer.add({topic: [0]}, version, **changes)
        for name, changes in asked.items()
        for version in OLD_VERSIONS
    }
    return seen | {"described": producer.describe()}


@situation("AddPartitionsToTxn of an unknown topic by an unknown producer: which error comes first")
def two_errors(broker: Broker) -> Any:
    nowhere = broker.name("add-two-errors")
    unknown, known = Producer(broker, "add-two-errors"), initialised(broker, "add-two-errors-known")
    return {
        "unknown id": unknown.add({nowhere: [0]}, producer_id=5, producer_epoch=0),
        "empty id": unknown.add({nowhere: [0]}, transactional_id="", producer_id=5, producer_epoch=0),
        "wrong epoch": known.add({nowhere: [0]}, producer_epoch=9),
        "wrong id": known.add({nowhere: [0]}, producer_id=known.producer_id + 1),
    }


@situation("AddPartitionsToTxn after a commit and after an abort begins the next transaction")
def after_the_end(broker: Broker) -> Any:
    topic = broker.create("add-after", partitions=2)
    producer = initialised(broker, "add-after")
    seen = []
    for end in (producer.commit, producer.abort):
        producer.add({topic: [0]})
        end()
        seen += [producer.describe(), producer.add({topic: [1]}), producer.describe(), producer.commit()]
    return seen


@situation("AddPartitionsToTxn v4 and v5 as brokers send it, of one transaction and of several")
def batched(broker: Broker) -> Any:
    topic = broker.create("add-batched", partitions=2)
    seen = {}
    for version in (4, 5):
        one, two = (initialised(broker, f"add-batched-{name}-v{version}") for name in ("one", "two"))
        unknown = Producer(broker, f"add-batched-unknown-v{version}")
        unknown.producer_id, unknown.epoch = one.producer_id, 0
        rows = [{"name": topic, "partitions": [0, 1]}]
        seen[version] = [
            one.add({topic: [0]}, version),
            add_several(broker, [{**each.identity(), "topics": rows} for each in (one, two, unknown)], version),
            one.describe(),
            two.describe(),
        ]
    return seen


@situation("AddPartitionsToTxn v4 and v5 that verifies: what is in a transaction, what is not, and when there is none")
def verified(broker: Broker) -> Any:
    topic = broker.create("add-verified", partitions=2)
    seen = {}
    for version in (4, 5):
        producer = initialised(broker, f"add-verified-v{version}")
        empty = producer.add({topic: [0]}, version, verify_only=True)
        producer.add({topic: [0]})
        seen[version] = {
            "Empty": empty,
            "Ongoing": producer.add({topic: [0, 1]}, version, verify_only=True),
            "an older epoch": producer.add({topic: [0]}, version, verify_only=True, producer_epoch=-1),
            "a newer epoch": producer.add({topic: [0]}, version, verify_only=True, producer_epoch=4),
            "another id": producer.add({topic: [0]}, version, verify_only=True, producer_id=producer.producer_id + 1),
            "another transactional id": producer.add(
                {topic: [0]}, version, verify_only=True, transactional_id="unknown"
            ),
            "an unknown topic": producer.add({broker.name("nowhere"): [0]}, version, verify_only=True),
            "commit": producer.commit(),
            "CompleteCommit": producer.add({topic: [0]}, version, verify_only=True),
        }
    return seen


@situation("AddOffsetsToTxn v0 to v4 begins a transaction, again and of another group")
def offsets(broker: Broker) -> Any:
    seen = {}
    wait_for_coordinator(broker, "g")
    for version in range(5):
        producer = initialised(broker, f"offsets-v{version}")
        answers = [producer.add_offsets(group, version) for group in ("first", "first", "second", "third")]
        seen[version] = [answers, producer.describe(), producer.commit()]
    return seen


@situation("AddOffsetsToTxn with an empty group id, and one that no group may have")
def empty_group(broker: Broker) -> Any:
    wait_for_coordinator(broker, "g")
    producer = initialised(broker, "offsets-empty")
    return [producer.add_offsets("", version) for version in range(5)] + [
        producer.add_offsets("a b/*"),
        producer.describe(),
    ]


@situation("AddOffsetsToTxn with wrong epochs, wrong ids, and transactional ids that are not known")
def offsets_refused(broker: Broker) -> Any:
    wait_for_coordinator(broker, "g")
    producer, other = initialised(broker, "offsets-refused"), broker.new_producer_id()
    producer.init()
    asked: dict[str, Any] = {
        "an older epoch": {"producer_epoch": 0},
        "a newer epoch": {"producer_epoch": 2},
        "another id": {"producer_id": other},
        "no id": {"producer_id": -1, "producer_epoch": -1},
        "unknown": {"transactional_id": broker.name("offsets-nowhere")},
        "empty": {"transactional_id": ""},
    }
    seen = {
        f"{name} v{version}": producer.add_offsets("g", version, **changes)
        for name, changes in asked.items()
        for version in range(5)
    }
    return seen | {"described": producer.describe()}


@situation("AddOffsetsToTxn after a commit and after an abort begins the next transaction")
def offsets_after_the_end(broker: Broker) -> Any:
    wait_for_coordinator(broker, "g")
    producer = initialised(broker, "offsets-after")
    seen = []
    for end in (producer.commit, producer.abort, producer.commit):
        seen += [producer.add_offsets("g"), producer.state(), end(), producer.describe()]
    return seen
