"""Validation of commands: topic names, broker ids, partition numbers and epochs. Pure.

A command with an invalid sender is refused as a whole. An invalid partition or broker in a command is left out alone:
a controller repeats what it reads from the coordination store, where any tool may have created an invalid topic or
broker, and one such znode must not keep the other changes from this broker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, Protocol, TypeVar, assert_never

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.topic_names import partition_error
from sordini.protocol.types import TopicPartition
from sordini.replication.cluster_model import (
    EPOCH_DURING_DELETION,
    Broker,
    Command,
    LeaderAndIsr,
    PartitionInfo,
    StoppedReplica,
    StopReplica,
    UpdateMetadata,
)
from sordini.system.named_tuple import NamedTuple

EPOCH_UNKNOWN: Final = -1
PORT_MAX: Final = 65_535
STEPS_EACH: Final = 2
"""The steps that one partition or broker counts for."""


class FilteredCommand(NamedTuple):
    """A command without its invalid parts, and the error codes of these."""

    command: Command
    refused: Mapping[TopicPartition, ErrorCode]


def check_sender(command: Command) -> None:
    """Raise BrokerError INVALID_REQUEST for an invalid controller id, controller epoch or broker epoch."""
    for number, number_min, field in (
        (command.controller_id, 0, "controller id"),
        (command.controller_epoch, 0, "controller epoch"),
        (command.broker_epoch, EPOCH_UNKNOWN, "broker epoch"),
    ):
        if number < number_min:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"{number} is not a valid {field}: allowed is {number_min} or more"
            )


def filter_command(command: Command) -> Generator[int, None, FilteredCommand]:
    """Leave invalid partitions and brokers out of a command. Yields the steps that it makes."""
    match command:
        case LeaderAndIsr():
            refused = yield from _refused(command.partitions, _invalid_state)
            leaders = yield from _valid_brokers(command.live_leaders)
            return FilteredCommand(
                command._replace(partitions=_kept(command.partitions, refused), live_leaders=leaders), refused
            )
        case UpdateMetadata():
            refused = yield from _refused(command.partitions, _invalid_name)
            refused |= yield from _refused(command.deleted, _invalid_name)
            live_brokers = yield from _valid_brokers(command.live_brokers)
            partitions, deleted = _kept(command.partitions, refused), _kept(command.deleted, refused)
            return FilteredCommand(
                command._replace(live_brokers=live_brokers, partitions=partitions, deleted=deleted), refused
            )
        case StopReplica():
            refused = yield from _refused(command.partitions, _invalid_stop)
            stopped = _kept(command.partitions, refused)
            return FilteredCommand(command._replace(partitions=stopped), refused)
        case _:
            assert_never(command)


class _Named(Protocol):
    @property
    def topic_partition(self) -> TopicPartition: ...


N = TypeVar("N", bound=_Named)


def _refused(
    parts: tuple[N, ...], why: Callable[[N], ErrorCode]
) -> Generator[int, None, dict[TopicPartition, ErrorCode]]:
    refused = {}
    for part in parts:
        code = why(part)
        if code:
            refused[part.topic_partition] = code
        yield STEPS_EACH
    return refused


def _kept(parts: tuple[N, ...], refused: Mapping[TopicPartition, ErrorCode]) -> tuple[N, ...]:
    return tuple(part for part in parts if part.topic_partition not in refused) if refused else parts


def _valid_brokers(brokers: tuple[Broker, ...]) -> Generator[int, None, tuple[Broker, ...]]:
    """The brokers with a valid id, without their invalid endpoints."""
    kept = []
    for broker in brokers:
        if broker.broker_id >= 0:
            ends = tuple(end for end in broker.endpoints if 0 <= end.port <= PORT_MAX)
            kept.append(broker if len(ends) == len(broker.endpoints) else broker._replace(endpoints=ends))
        yield STEPS_EACH
    return tuple(kept)


def _invalid_name(part: _Named) -> ErrorCode:
    return ErrorCode.NONE if partition_error(*part.topic_partition) is None else ErrorCode.INVALID_TOPIC_EXCEPTION


def _invalid_state(info: PartitionInfo) -> ErrorCode:
    state = info.state
    numbers = (state.leader_epoch, info.partition_epoch, *info.replicas, *state.isr, *info.adding, *info.removing)
    return _invalid_name(info) or (ErrorCode.INVALID_REQUEST if min(numbers) < 0 else ErrorCode.NONE)


def _invalid_stop(replica: StoppedReplica) -> ErrorCode:
    is_valid = replica.leader_epoch >= EPOCH_DURING_DELETION
    return _invalid_name(replica) or (ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST)
