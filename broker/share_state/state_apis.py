"""The five requests on stored states, which differ in what they say of a share partition, and in nothing else. Pure.

A `StateApi` makes the rows of requests and responses, and reads them: the coordinator's handler and the leaders' remote
requests use the same. Sentinels of the protocol end here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.ports import ReadState, StateSummary, StateWrite
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from sordini.protocol.messages.common import StateBatch
from sordini.protocol.types import Offset
from sordini.system.named_tuple import NamedTuple

BATCHES_MAX: Final = 10_000
"""State batches of one share partition in a request: as many as it may have records in flight in Apache Kafka."""
NOT_KNOWN: Final = -1

Argument = Any
"""`InitialState`, a leader epoch, a `StateWrite`, or None: what a request says of a share partition."""
Answer = Any
"""An error code, a `ReadState` or a `StateSummary`."""


class StateKind(Enum):
    """What is done with a state."""

    INITIALIZE = "initialize"
    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    SUMMARIZE = "summarize"


class InitialState(NamedTuple):
    """What a group begins with."""

    state_epoch: int
    start: Offset | None


class StateApi(NamedTuple):
    """One of the requests."""

    kind: StateKind
    key: ApiKey
    request: type[Any]
    topic: type[Any]
    response: type[Any]
    result: type[Any]
    argument_of: Callable[[Any], Argument]
    """Of a request's row. Raises BrokerError."""
    row: Callable[[int, Argument], Any]
    """The row of a request, for a partition."""
    answer_of: Callable[[Any], Answer]
    """Of a response's row."""
    result_row: Callable[[int, Answer], Any]
    """The row of a response, for a partition."""
    failure: Callable[[ErrorCode], Answer]
    """The answer that is an error."""


def error_of(answer: Answer) -> ErrorCode:
    return answer if isinstance(answer, ErrorCode) else answer.error


def _code(row: Any) -> ErrorCode:
    try:
        return ErrorCode(row.error_code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _same(code: ErrorCode) -> ErrorCode:
    return code


def _offset(number: int) -> Offset | None:
    return None if number < 0 else Offset(number)


def _number(value: int | None) -> int:
    return NOT_KNOWN if value is None else value


def _runs(batches: list[StateBatch]) -> tuple[StateRun, ...]:
    """Raises BrokerError INVALID_REQUEST."""
    if len(batches) > BATCHES_MAX:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"a write may have {BATCHES_MAX} state batches of a partition")
    for batch in batches:
        if not 0 <= batch.first_offset <= batch.last_offset:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"offsets {batch.first_offset} to {batch.last_offset} are no state batch"
            )
    return tuple(
        StateRun(batch.first_offset, batch.last_offset + 1, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )


def _batches(runs: tuple[StateRun, ...]) -> list[StateBatch]:
    return [
        StateBatch(
            first_offset=run.first, last_offset=run.end - 1, delivery_state=run.state, delivery_count=run.deliveries
        )
        for run in runs
    ]


def _write_of(row: write_share_group_state.PartitionData) -> StateWrite:
    done = None if row.delivery_complete_count < 0 else row.delivery_complete_count
    return StateWrite(row.state_epoch, row.leader_epoch, _offset(row.start_offset), done, _runs(row.state_batches))


def _write_row(partition: int, write: StateWrite) -> write_share_group_state.PartitionData:
    return write_share_group_state.PartitionData(
        partition=partition,
        state_epoch=write.state_epoch,
        leader_epoch=write.leader_epoch,
        start_offset=_number(write.start),
        delivery_complete_count=_number(write.done),
        state_batches=_batches(write.runs),
    )


def _read_answer(row: read_share_group_state.PartitionResult) -> ReadState:
    if row.error_code:
        return ReadState(_code(row))
    runs = tuple(
        StateRun(batch.first_offset, batch.last_offset + 1, batch.delivery_state, batch.delivery_count)
        for batch in row.state_batches
    )
    return ReadState(ErrorCode.NONE, row.state_epoch, _offset(row.start_offset), runs)


def _read_row(partition: int, answer: ReadState) -> read_share_group_state.PartitionResult:
    if answer.error:
        return read_share_group_state.PartitionResult(partition=partition, error_code=answer.error)
    return read_share_group_state.PartitionResult(
        partition=partition,
        state_epoch=answer.state_epoch,
        start_offset=_number(answer.start),
        state_batches=_batches(answer.runs),
    )


def _summary_answer(row: read_share_group_state_summary.PartitionResult) -> StateSummary:
    if row.error_code:
        return StateSummary(_code(row))
    done = None if row.delivery_complete_count < 0 else row.delivery_complete_count
    return StateSummary(ErrorCode.NONE, row.state_epoch, row.leader_epoch, _offset(row.start_offset), done)


def _summary_row(partition: int, answer: StateSummary) -> read_share_group_state_summary.PartitionResult:
    if answer.error:
        return read_share_group_state_summary.PartitionResult(partition=partition, error_code=answer.error)
    return read_share_group_state_summary.PartitionResult(
        partition=partition,
        state_epoch=answer.state_epoch,
        leader_epoch=answer.leader_epoch,
        start_offset=_number(answer.start),
        delivery_complete_count=_number(answer.done),
    )


INITIALIZE: Final = StateApi(
    StateKind.INITIALIZE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    initialize_share_group_state.InitializeShareGroupStateRequest,
    initialize_share_group_state.InitializeStateData,
    initialize_share_group_state.InitializeShareGroupStateResponse,
    initialize_share_group_state.InitializeStateResult,
    lambda row: InitialState(row.state_epoch, _offset(row.start_offset)),
    lambda partition, initial: initialize_share_group_state.PartitionData(
        partition=partition, state_epoch=initial.state_epoch, start_offset=_number(initial.start)
    ),
    _code,
    lambda partition, code: initialize_share_group_state.PartitionResult(partition=partition, error_code=code),
    _same,
)
READ: Final = StateApi(
    StateKind.READ,
    ApiKey.READ_SHARE_GROUP_STATE,
    read_share_group_state.ReadShareGroupStateRequest,
    read_share_group_state.ReadStateData,
    read_share_group_state.ReadShareGroupStateResponse,
    read_share_group_state.ReadStateResult,
    lambda row: row.leader_epoch,
    lambda partition, epoch: read_share_group_state.PartitionData(partition=partition, leader_epoch=epoch),
    _read_answer,
    _read_row,
    ReadState,
)
WRITE: Final = StateApi(
    StateKind.WRITE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    write_share_group_state.WriteShareGroupStateRequest,
    write_share_group_state.WriteStateData,
    write_share_group_state.WriteShareGroupStateResponse,
    write_share_group_state.WriteStateResult,
    _write_of,
    _write_row,
    _code,
    lambda partition, code: write_share_group_state.PartitionResult(partition=partition, error_code=code),
    _same,
)
DELETE: Final = StateApi(
    StateKind.DELETE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    delete_share_group_state.DeleteShareGroupStateRequest,
    delete_share_group_state.DeleteStateData,
    delete_share_group_state.DeleteShareGroupStateResponse,
    delete_share_group_state.DeleteStateResult,
    lambda _row: None,
    lambda partition, _nothing: delete_share_group_state.PartitionData(partition=partition),
    _code,
    lambda partition, code: delete_share_group_state.PartitionResult(partition=partition, error_code=code),
    _same,
)
SUMMARIZE: Final = StateApi(
    StateKind.SUMMARIZE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
    read_share_group_state_summary.ReadStateSummaryData,
    read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
    read_share_group_state_summary.ReadStateSummaryResult,
    lambda _row: None,
    lambda partition, _nothing: read_share_group_state_summary.PartitionData(partition=partition),
    _summary_answer,
    _summary_row,
    StateSummary,
)
STATE_APIS: Final = (INITIALIZE, READ, WRITE, DELETE, SUMMARIZE)
