"""The lines of the controller's transcripts: one for each action."""

from __future__ import annotations

import json

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, topic_id_text
from sordini.replication.cluster_model import (
    Command,
    KnownState,
    LeaderAndIsr,
    PartitionInfo,
    StopReplica,
    UpdateMetadata,
)
from sordini.replication.controller.machine.events import ControllerReply
from sordini.replication.ports import Create, Delete, Set


def describe(command: Command) -> str:
    match command:
        case LeaderAndIsr(partitions=partitions):
            return "LeaderAndIsr " + "; ".join(_partition(info) for info in partitions)
        case UpdateMetadata(live_brokers=live, partitions=partitions, deleted=deleted):
            parts = [f"live={_ids([broker.broker_id for broker in live])}"]
            parts += [_partition(info) for info in partitions]
            parts += [f"{gone.topic_partition} deleted" for gone in deleted]
            return "UpdateMetadata " + "; ".join(parts)
        case StopReplica(partitions=stopped):
            return "StopReplica " + "; ".join(f"{s.topic_partition}{' delete' if s.delete else ''}" for s in stopped)


def reply_line(reply: ControllerReply) -> str:
    change, result = reply
    about = "" if change is None else f"{change.topic or topic_id_text(change.topic_id)}-{change.partition} "
    if isinstance(result, ErrorCode):
        return about + result.name
    if isinstance(result, KnownState):
        state = result.state
        return f"{about}leader={state.leader} epoch={state.leader_epoch} isr={_ids(state.isr)} version={result.version}"
    return f"{about}{result.start} to {result.end} for {result.broker_id}"


def _partition(info: PartitionInfo) -> str:
    state = info.state
    text = (
        f"{info.topic_partition} leader={'none' if state.leader is None else state.leader}"
        f" epoch={state.leader_epoch} isr={_ids(state.isr)} version={info.partition_epoch}"
    )
    if info.adding or info.removing:
        text += f" replicas={_ids(info.replicas)} adding={_ids(info.adding)} removing={_ids(info.removing)}"
    if info.offline_replicas:
        text += f" offline={_ids(info.offline_replicas)}"
    if state.recovering:
        text += " recovering"
    return text + (" new" if info.is_new else "")


def operation_line(operation: Create | Set | Delete) -> str:
    if isinstance(operation, Delete):
        return f"delete {operation.path}"
    verb = "create" if isinstance(operation, Create) else "set"
    if not operation.data:
        return f"{verb} {operation.path}"
    value = json.loads(operation.data)
    if operation.path.endswith("/state"):
        shown = ("leader", "leader_epoch", "isr", "controller_epoch", "leader_recovery_state")
        value = {key: value[key] for key in shown if key in value}
    return f"{verb} {operation.path} {json.dumps(value)}"


def _ids(brokers: list[BrokerId] | tuple[BrokerId, ...]) -> str:
    return ",".join(str(broker) for broker in brokers)
