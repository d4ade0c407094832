"""The stored state of a share partition out of the records of `__share_group_state`.

For a broker of ours that stands alone: requests between brokers are refused there.
"""

from __future__ import annotations

from sordini.broker.share_state.machine.state_runs import StateRun, with_written
from sordini.broker.share_state.machine.stored_state import Snapshot, Update
from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.share_state.records import SHARE_STATE_TOPIC, StateKey, read_key, read_value
from sordini.protocol.types import TopicId
from tests.compat.situations.stored import stored_records
from tests.compat.situations.wire import Broker


def folded(broker: Broker, group_id: str, topic_id: bytes) -> tuple[int, tuple[StateRun, ...]]:
    """The start offset, -1 for none, and the runs of partition 0; the topic of states has one partition."""
    wanted = SharePartitionKey(group_id, TopicId(topic_id), 0)
    start: int | None = None
    runs: tuple[StateRun, ...] = ()
    for record in stored_records(_read(broker)):
        key = read_key(record.key)
        if not isinstance(key, StateKey) or key.share_partition != wanted:
            continue
        value = read_value(key.kind, record.value)
        if isinstance(value, Snapshot):
            start, runs = value.start, value.runs
        elif isinstance(value, Update):
            start = start if value.start is None else value.start
            runs = with_written(runs, value.runs, start or 0)
    return -1 if start is None else start, runs


def _read(broker: Broker) -> bytes:
    found, position = bytearray(), _log_start(broker)
    while True:
        rows = [{"partition": 0, "fetch_offset": position, "partition_max_bytes": 50_000_000}]
        topics = [{"topic": SHARE_STATE_TOPIC, "partitions": rows}]
        fields = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 50_000_000, "topics": topics}
        records = broker.ask("Fetch", 11, **fields)["responses"][0]["partitions"][0]["records"]
        if not records:
            return bytes(found)
        found += records
        position = max(record.end for record in stored_records(records))


def _log_start(broker: Broker) -> int:
    rows = [{"partition_index": 0, "timestamp": -2}]
    answer = broker.ask("ListOffsets", 5, replica_id=-1, topics=[{"name": SHARE_STATE_TOPIC, "partitions": rows}])
    start: int = answer["topics"][0]["partitions"][0]["offset"]
    return start
