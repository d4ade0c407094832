"""DescribeProducers, DescribeTransactions and ListTransactions: what administrators see (KIP-664, KIP-994, KIP-1152)."""

from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.producers import Producer, initialised
from tests.compat.situations.registry import KRAFT, situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

HOUR_MS = 3_600_000


def _producers(broker: Broker, topic: str, *partitions: int) -> Any:
    topics = [{"name": topic, "partition_indexes": list(partitions)}]
    answer = broker.ask("DescribeProducers", 0, topics=topics)
    if isinstance(answer, dict):
        for row in answer["topics"]:
            for partition in row["partitions"]:
                partition["active_producers"].sort(key=lambda one: one["producer_id"])
    return answer


@situation("DescribeProducers of idempotent and transactional producers, while a transaction is open and afterwards")
def described_producers(broker: Broker) -> Any:
    topic = broker.create("describe-producers", partitions=2)
    seen = {"none": _producers(broker, topic, 0, 1)}
    own = broker.new_producer_id()
    broker.produce(topic, batch(2, producer_id=own, producer_epoch=0, base_sequence=0))
    producer = initialised(broker, "describe-producers")
    producer.add({topic: [0, 1]})
    seen["nothing written"] = _producers(broker, topic, 0, 1)
    producer.send(topic, 3)
    producer.send(topic, 1)
    seen["open"] = _producers(broker, topic, 0, 1)
    producer.commit()
    seen["committed"] = _producers(broker, topic, 0, 1)
    producer.init()
    producer.write(topic)
    seen["the next epoch"] = _producers(broker, topic, 0)
    producer.abort()
    return seen | {"aborted": _producers(broker, topic, 0)}


@situation("DescribeProducers of unknown and odd topics and partitions, and of nothing")
def unknown_producers(broker: Broker) -> Any:
    topic = broker.create("describe-unknown")
    return {
        "partition": _producers(broker, topic, 0, 3, -1),
        "topic": _producers(broker, broker.name("describe-nowhere"), 0),
        "bad name": _producers(broker, "a b", 0),
        "empty name": _producers(broker, "", 0),
        "no partitions": _producers(broker, topic),
        "nothing": broker.ask("DescribeProducers", 0, topics=[]),
    }


@situation("DescribeTransactions of known, unknown, repeated and empty transactional ids, and of none")
def described(broker: Broker) -> Any:
    producer = initialised(broker, "describe-known")
    unknown = broker.name("describe-unknown")

    def ask(*names: str) -> Any:
        answer = broker.ask("DescribeTransactions", 0, transactional_ids=list(names))
        if isinstance(answer, dict):
            answer["transaction_states"].sort(key=lambda row: row["transactional_id"])
        return answer

    until(lambda: ask(unknown), lambda seen: seen["transaction_states"][0]["error_code"] == 105)
    return {
        "both": ask(producer.id, unknown),
        "repeated": ask(producer.id, producer.id),
        "empty": ask(""),
        "none": ask(),
    }


@situation("DescribeTransactions in every state that lasts, with topics and partitions")
def described_states(broker: Broker) -> Any:
    one, two = broker.create("describe-one", partitions=3), broker.create("describe-two")
    producer = initialised(broker, "describe-states")
    seen = [producer.describe()]
    producer.add({one: [2, 0], two: [0]})
    seen.append(producer.describe())
    producer.commit()
    seen.append(producer.describe())
    producer.add({one: [1]})
    producer.abort()
    return [*seen, producer.describe()]


def _listed(broker: Broker, version: int, mine: list[Producer], **filters: Any) -> Any:
    """The answer, but of these producers alone."""
    answer = broker.ask("ListTransactions", version, **filters)
    if isinstance(answer, dict):
        ids = {producer.id for producer in mine}
        rows = [row for row in answer["transaction_states"] if row["transactional_id"] in ids]
        answer["transaction_states"] = sorted(rows, key=lambda row: row["transactional_id"])
        answer["unknown_state_filters"].sort()
    return answer


def _in_every_state(broker: Broker, name: str) -> list[Producer]:
    """Producers that are Empty, Ongoing, CompleteCommit and CompleteAbort."""
    topic = broker.create_led(name)
    empty, ongoing, committed, aborted = (initialised(broker, f"{name}-{index}") for index in range(4))
    for producer in (ongoing, committed, aborted):
        producer.write(topic)
    committed.commit()
    aborted.abort()
    return [empty, ongoing, committed, aborted]


@situation("ListTransactions v0 and v1 by states, known and unknown ones")
def by_state(broker: Broker) -> Any:
    mine = _in_every_state(broker, "txn-list-states")
    filters = (
        [],
        ["Ongoing"],
        ["Empty", "CompleteAbort"],
        ["Ongoing", "Ongoing"],
        ["PrepareCommit"],
        ["ongoing"],
        ["Nonsense", "CompleteCommit"],
        ["Nonsense", "", "ongoing"],
        ["PrepareEpochFence"],
        ["Dead"],
    )
    seen = {
        f"{states} v{version}": _listed(broker, version, mine, state_filters=states)
        for states in filters
        for version in (0, 1)
    }
    mine[1].abort()
    return seen


@situation("ListTransactions v0 and v1 by producer ids, alone and with states")
def by_producer(broker: Broker) -> Any:
    mine = _in_every_state(broker, "txn-list-producers")
    ids = [producer.producer_id for producer in mine]
    asked: dict[str, Any] = {
        "two": {"producer_id_filters": ids[1:3]},
        "unknown": {"producer_id_filters": [ids[0] + 10**9]},
        "-1": {"producer_id_filters": [-1]},
        "one that is not in the state": {"producer_id_filters": ids[:1], "state_filters": ["Ongoing"]},
        "one that is": {"producer_id_filters": ids[:2], "state_filters": ["Ongoing"]},
    }
    seen = {
        f"{name} v{version}": _listed(broker, version, mine, **filters)
        for name, filters in asked.items()
        for version in (0, 1)
    }
    mine[1].abort()
    return seen


@situation("ListTransactions v1 by how long a transaction has been open")
def by_duration(broker: Broker) -> Any:
    mine = _in_every_state(broker, "txn-list-durations")

    def ask(duration_ms: int) -> Any:
        return _listed(broker, 1, mine, duration_filter=duration_ms)

    until(
        lambda: ask(1),
        lambda answer: any(row["transactional_id"] == mine[1].id for row in answer["transaction_states"]),
    )
    seen = {duration_ms: ask(duration_ms) for duration_ms in (-1, -2, 0, 1, HOUR_MS, 2**63 - 1)}
    mine[1].abort()
    return seen


@situation("ListTransactions v2 by a pattern of transactional ids", judge=KRAFT)
def by_pattern(broker: Broker) -> Any:
    mine = _in_every_state(broker, "txn-list-patterns")
    prefix = broker.name("txn-list-patterns")
    patterns = {
        "none": None,
        "empty": "",
        "all": ".*",
        "prefix": f"{prefix}-.*",
        "no prefix": f"{prefix}-",
        "class": f"{prefix}-[12]",
        "alternatives": f"{prefix}-0|{prefix}-3",
        "group": f"({prefix}-)+\\d",
        "count": f"{prefix}-\\d{{1}}",
        "anchors": f"^{prefix}-1$",
        "not greedy": ".*?-2",
        "case": f"(?i){prefix.upper()}-1",
        "unclosed group": "(",
        "unclosed class": "[a",
        "bad count": "a{2,1}",
        "a star alone": "*",
    }
    seen = {name: _listed(broker, 2, mine, transactional_id_pattern=pattern) for name, pattern in patterns.items()}
    seen["with a state"] = _listed(broker, 2, mine, transactional_id_pattern=f"{prefix}-.*", state_filters=["Ongoing"])
    seen["with a duration"] = _listed(broker, 2, mine, transactional_id_pattern=f"{prefix}-.*", duration_filter=HOUR_MS)
    mine[1].abort()
    return seen
