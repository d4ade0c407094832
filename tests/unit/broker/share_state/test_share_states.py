"""The share coordinator of a whole broker: its five requests, its records, and what the next coordinator makes of them."""

from __future__ import annotations

from typing import Any

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.ports import ReadState, SharePartitionKey, StateSummary, StateWrite
from sordini.broker.share_state.records import SHARE_STATE_TOPIC
from sordini.broker.share_state.state_apis import (
    DELETE,
    INITIALIZE,
    READ,
    SUMMARIZE,
    WRITE,
    InitialState,
    StateApi,
)
from sordini.protocol.errors import ErrorCode
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import Offset
from tests.support.unit_broker import UnitBroker, a_broker, topic_id_of

TOPIC = "orders"
KEY = SharePartitionKey("workers", topic_id_of(TOPIC), 0)
AVAILABLE, ACKNOWLEDGED = 0, 2
ONE_PARTITION = {"share.coordinator.state.topic.num.partitions": "1"}


async def lead_all(broker: UnitBroker, epoch: int = 0) -> None:
    await broker.lead(TOPIC, 2, epoch=epoch)
    await broker.lead(SHARE_STATE_TOPIC, 1, epoch=epoch)
    await broker.settled()


def ask(broker: UnitBroker, api: StateApi, argument: Any, key: SharePartitionKey = KEY) -> Any:
    """The answer to a request for one share partition."""
    topic = api.topic(topic_id=key.topic_id, partitions=[api.row(key.partition, argument)])
    request = api.request(group_id=key.group_id, topics=[topic])
    response = broker.ask(api.key, APIS[api.key].max_version, request)
    ((result,),) = ([topic.partitions for topic in response.results],)
    (row,) = result
    assert row.partition == key.partition
    return api.answer_of(row)


def a_write(
    *runs: tuple[int, int, int, int], start: int = 0, done: int = 0, leader_epoch: int = 0, state_epoch: int = 2
) -> StateWrite:
    return StateWrite(state_epoch, leader_epoch, Offset(start), done, tuple(StateRun(*run) for run in runs))


async def test_a_state_is_initialized_read_written_summarized_and_deleted() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await lead_all(broker)
        assert ask(broker, SUMMARIZE, None) == StateSummary(ErrorCode.NONE)
        assert ask(broker, INITIALIZE, InitialState(2, None)) is ErrorCode.NONE
        assert ask(broker, SUMMARIZE, None) == StateSummary(ErrorCode.NONE, 2, 0, None, None)
        assert ask(broker, READ, 3) == ReadState(ErrorCode.NONE, 2, None, ())
        written = a_write((0, 4, ACKNOWLEDGED, 1), (4, 6, AVAILABLE, 1), done=4, leader_epoch=3)
        assert ask(broker, WRITE, written) is ErrorCode.NONE
        runs = (StateRun(0, 4, ACKNOWLEDGED, 1), StateRun(4, 6, AVAILABLE, 1))
        assert ask(broker, READ, 3) == ReadState(ErrorCode.NONE, 2, Offset(0), runs)
        assert ask(broker, SUMMARIZE, None) == StateSummary(ErrorCode.NONE, 2, 3, Offset(0), 4)
        assert ask(broker, DELETE, None) is ErrorCode.NONE
        assert ask(broker, READ, 3) == ReadState(ErrorCode.INVALID_REQUEST)
        assert ask(broker, DELETE, None) is ErrorCode.NONE
