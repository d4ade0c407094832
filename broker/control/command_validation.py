"""What a command may hold: names that can be topics, numbers that can be brokers, partitions and epochs. Pure.

A command with a sender that cannot be is refused as a whole. A part of a command that cannot be is refused alone: a
controller repeats what it finds in the coordination store, where any tool may have made a topic or a broker that no
broker can serve, and one such node must not keep the rest of the cluster's news away.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, TypeVar, assert_never

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

EPOCH_UNKNOWN: Final = -1
PORT_MAX: Final = 65_535
STEPS_EACH: Final = 2
"""What it takes to look at one partition or broker."""


class FilteredCommand(NamedTuple):
    """A command without what cannot be, and what is answered for that."""

    command: Command
    refused: Mapping[TopicPartition, ErrorCode]


def check_sender(command: Command) -> None:
    """Raise BrokerError INVALID_REQUEST for a command of a controller, or for a registration, that cannot be."""
    for number, least, what in (
        (command.controller_id, 0, "controller id"),
        (command.controller_epoch, 0, "controller epoch"),
        (command.broker_epoch, EPOCH_UNKNOWN, "broker epoch"),
    ):
        if number < least:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{number} is no {what}: the least is {least}")


def filter_command(command: Command) -> Generator[int, None, FilteredCommand]:
    """Take out of a command the partitions and brokers that cannot be. Yields the steps that it makes."""
    match command:
        case LeaderAndIsr():
            refused = yield from _refused(command.partitions, _why_no_term)
            leaders = yield from _reachable(command.live_leaders)
            return FilteredCommand(
                replace(command, partitions=_kept(command.partitions, refused), live_leaders=leaders), refused
            )
        case UpdateMetadata():
            refused = yield from _refused(command.partitions, _why_no_name)
            refused |= yield from _refused(command.deleted, _why_no_name)
            living = yield from _reachable(command.live_brokers)
            known, gone = _kept(command.partitions, refused), _kept(command.deleted, refused)
            return FilteredCommand(replace(command, live_brokers=living, partitions=known, deleted=gone), refused)
        case StopReplica():
            refused = yield from _refused(command.partitions, _why_not_stopped)
            stopped = _kept(command.partitions, refused)
            return FilteredCommand(replace(command, partitions=stopped), refused)
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


def _reachable(brokers: tuple[Broker, ...]) -> Generator[int, None, tuple[Broker, ...]]:
    """Those that can be, without addresses that cannot be connected to."""
    kept = []
    for broker in brokers:
        if broker.broker_id >= 0:
            ends = tuple(end for end in broker.endpoints if 0 <= end.port <= PORT_MAX)
            kept.append(broker if len(ends) == len(broker.endpoints) else replace(broker, endpoints=ends))
        yield STEPS_EACH
    return tuple(kept)


def _why_no_name(part: _Named) -> ErrorCode:
    return ErrorCode.NONE if partition_error(*part.topic_partition) is None else ErrorCode.INVALID_TOPIC_EXCEPTION


def _why_no_term(info: PartitionInfo) -> ErrorCode:
    state = info.state
    numbers = (state.leader_epoch, info.partition_epoch, *info.replicas, *state.isr, *info.adding, *info.removing)
    return _why_no_name(info) or (ErrorCode.INVALID_REQUEST if min(numbers) < 0 else ErrorCode.NONE)


def _why_not_stopped(replica: StoppedReplica) -> ErrorCode:
    can_be = replica.leader_epoch >= EPOCH_DURING_DELETION
    return _why_no_name(replica) or (ErrorCode.NONE if can_be else ErrorCode.INVALID_REQUEST)
