"""Decodes the records of __consumer_offsets, for `log dump --offsets-decoder`."""

from __future__ import annotations

from typing import Any

from sordini.broker.groups.machine.records import GroupKey, OffsetKey, read_group, read_key, read_offset
from sordini.broker.groups.machine.state import GroupValue, MemberValue
from sordini.cli.commands.log.dump.items import Item
from sordini.protocol.consumer_assignment import read_assignment
from sordini.protocol.records.versioned import Damaged


def decoded(item: Item) -> Item:
    """A record as a committed offset or a group, `removed` for a tombstone; other items do not change.

    A record that cannot be decoded keeps its bytes, and gets a field `undecoded` with the reason.
    """
    if item.kind != "record" or item.fields["key"] is None:
        return item
    key = read_key(item.fields["key"])
    value: bytes | None = item.fields["value"]
    at = {"offset": item.fields["offset"], "timestamp": item.fields["timestamp"]}
    match key:
        case OffsetKey(group, topic, partition):
            whose = {"group": group, "topic": topic, "partition": partition}
            read = None if value is None else read_offset(value)
            if isinstance(read, Damaged):
                return _undecoded(item, f"the value of group {group}, {topic}-{partition}: {read.reason}")
            if read is None:
                return Item("committed", at | whose | {"removed": True})
            return Item("committed", at | whose | {"removed": False} | _offset_fields(read))
        case GroupKey(group):
            found = None if value is None else read_group(value)
            if isinstance(found, Damaged):
                return _undecoded(item, f"the value of group {group}: {found.reason}")
            if found is None:
                return Item("group", at | {"group": group, "removed": True})
            return Item("group", at | {"group": group, "removed": False} | _group(found))
        case Damaged(reason):
            return _undecoded(item, f"the key: {reason}")
        case _:
            return _undecoded(item, f"a key of version {key.version}, which this release does not know")


def _undecoded(item: Item, reason: str) -> Item:
    return Item(item.kind, item.fields | {"undecoded": reason})


def _offset_fields(read: Any) -> dict[str, Any]:
    return {
        "committed_offset": read.offset,
        "leader_epoch": read.leader_epoch if read.leader_epoch >= 0 else None,
        "metadata": read.metadata,
        "commit_timestamp": read.committed_ms,
        "expire_timestamp": read.expires_ms,
    }


def _group(found: GroupValue) -> dict[str, Any]:
    return {
        "protocol_type": found.protocol_type,
        "generation": found.generation_id,
        "protocol": found.protocol_name,
        "leader": found.leader_id,
        "state_timestamp": found.state_since_ms,
        "members": [_member(member, found.protocol_type) for member in found.members],
    }


def _member(member: MemberValue, protocol_type: str) -> dict[str, Any]:
    assigned = read_assignment(member.assignment) if protocol_type == "consumer" else None
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "assignment": member.assignment if assigned is None else [str(partition) for partition in assigned],
    }
