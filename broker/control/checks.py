"""What a command may hold: names that can be topics, numbers that can be brokers, partitions and epochs. Pure.

A command with a sender that cannot be is refused as a whole. A part of a command that cannot be is refused alone: a
controller repeats what it finds in the coordination store, where any tool may have made a topic or a broker that no
broker can serve, and one such node must not keep the rest of the cluster's news away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, assert_never

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.topic_names import why_no_partition
from sordini.protocol.types import TopicPartition
from sordini.replication.controller.cluster import (
    EPOCH_OF_DELETION,
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


class Sifted(NamedTuple):
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


def sifted(command: Command) -> Sifted:
    """Take out of a command the partitions and brokers that cannot be."""
    match command:
        case LeaderAndIsr():
            refused = _refused((info.topic_partition, _why_no_term(info)) for info in command.partitions)
            leaders = tuple(map(_reachable, filter(_can_be, command.live_leaders)))
            kept = tuple(info for info in command.partitions if info.topic_partition not in refused)
            return Sifted(replace(command, partitions=kept, live_leaders=leaders), refused)
        case UpdateMetadata():
            known = [name for name, *_ in command.partitions] + [name for name, _ in command.deleted]
            refused = _refused((name, _why_no_name(name)) for name in known)
            return Sifted(
                replace(
                    command,
                    live_brokers=tuple(map(_reachable, filter(_can_be, command.live_brokers))),
                    partitions=tuple(info for info in command.partitions if info.topic_partition not in refused),
                    deleted=tuple(gone for gone in command.deleted if gone.topic_partition not in refused),
                ),
                refused,
            )
        case StopReplica():
            refused = _refused((replica.topic_partition, _why_not_stopped(replica)) for replica in command.partitions)
            stopped = tuple(replica for replica in command.partitions if replica.topic_partition not in refused)
            return Sifted(replace(command, partitions=stopped), refused)
        case _:
            assert_never(command)


def _refused(judged: Iterable[tuple[TopicPartition, ErrorCode]]) -> dict[TopicPartition, ErrorCode]:
    return {name: code for name, code in judged if code}


def _why_no_name(name: TopicPartition) -> ErrorCode:
    return ErrorCode.NONE if why_no_partition(*name) is None else ErrorCode.INVALID_TOPIC_EXCEPTION


def _why_no_term(info: PartitionInfo) -> ErrorCode:
    state = info.state
    numbers = (state.leader_epoch, info.partition_epoch, *info.replicas, *state.isr, *info.adding, *info.removing)
    return _why_no_name(info.topic_partition) or (ErrorCode.INVALID_REQUEST if min(numbers) < 0 else ErrorCode.NONE)


def _why_not_stopped(replica: StoppedReplica) -> ErrorCode:
    can_be = replica.leader_epoch >= EPOCH_OF_DELETION
    return _why_no_name(replica.topic_partition) or (ErrorCode.NONE if can_be else ErrorCode.INVALID_REQUEST)


def _can_be(broker: Broker) -> bool:
    return broker.broker_id >= 0


def _reachable(broker: Broker) -> Broker:
    """A broker without addresses that nobody can connect to."""
    return replace(broker, endpoints=tuple(end for end in broker.endpoints if 0 <= end.port <= PORT_MAX))
