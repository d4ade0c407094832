"""The items that the readers of `log dump` yield, as JSON and as text."""

from __future__ import annotations

from typing import Any

from sordini.cli.common.output import bytes_as_text, bytes_in_json
from sordini.system.clock import utc_text
from sordini.system.named_tuple import NamedTuple

DAMAGE = "damage"


class Item(NamedTuple):
    """One item of a file, such as a batch, a record or an index entry."""

    kind: str
    fields: dict[str, Any]

    @property
    def is_damage(self) -> bool:
        return self.kind == DAMAGE


def damage(position: int, reason: str) -> Item:
    """Damage at a byte of the file."""
    return Item(DAMAGE, {"position": position, "reason": reason})


def as_json(item: Item, file: str) -> dict[str, Any]:
    """An item for one line of JSON."""
    return {"file": file, "kind": item.kind} | {name: _json_value(value) for name, value in item.fields.items()}


def as_text(item: Item) -> str:
    """An item as one line of text."""
    fields = item.fields
    match item.kind:
        case "batch":
            return _batch_text(fields)
        case "record":
            return _record_text(fields)
        case "padding":
            return f"{fields['bytes']} bytes of zeros from byte {fields['position']} on: preallocated space"
        case "damage":
            return f"DAMAGED at byte {fields['position']}: {fields['reason']}"
        case "committed" | "group":
            return (
                f"  {fields['offset']}  {utc_text(fields['timestamp'])}  group {fields['group']}  {_group_text(fields)}"
            )
        case "transaction":
            return _transaction_text(fields)
        case "message" | "inner message" | "part of a message" | "fetch result" | "multi-fetch result":
            return f"{'  ' * (item.kind == 'inner message')}{item.kind}  {_pairs_text(fields)}"
        case "property":
            return f"{fields['key']}={fields['value']}"
        case "checkpoint":
            return f"{fields['topic']}-{fields['partition']}  {fields['offset']}"
        case _:
            return _pairs_text(fields)


def _pairs_text(fields: dict[str, Any]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {_value_text(name, value)}" for name, value in fields.items())


def _batch_text(fields: dict[str, Any]) -> str:
    count = fields["records"]
    words = [
        f"offsets {fields['base_offset']}-{fields['last_offset']}",
        f"{count} record{'' if count == 1 else 's'}" if count is not None else f"format {fields['format']}",
        f"byte {fields['position']}",
        f"{fields['size']} bytes",
        f"{fields['timestamp_type']} time up to {utc_text(fields['max_timestamp'])}"
        if fields["max_timestamp"] >= 0
        else "no time",
    ]
    if fields["compression"] != "uncompressed":
        words.append(fields["compression"])
    if fields["leader_epoch"] is not None:
        words.append(f"epoch {fields['leader_epoch']}")
    if fields["producer_id"] is not None:
        words.append(f"producer {fields['producer_id']}/{fields['producer_epoch']} from {fields['base_sequence']}")
    words += [name for name in ("transactional", "control") if fields[name]]
    return "  ".join(words)


def _record_text(fields: dict[str, Any]) -> str:
    words = [f"  {fields['offset']}", utc_text(fields["timestamp"]) if fields["timestamp"] >= 0 else "no time"]
    if "marker" in fields:
        words.append(f"{fields['marker']} marker, coordinator epoch {fields['coordinator_epoch']}")
    else:
        words += [f"{name} {_value_text(name, fields[name])}" for name in ("key", "value")]
    if "undecoded" in fields:
        words.append(f"not decoded: {fields['undecoded']}")
    if fields["headers"]:
        listed = ", ".join(f"{key}={_value_text(key, value)}" for key, value in fields["headers"])
        words.append(f"headers {listed}")
    return "  ".join(words)


def _group_text(fields: dict[str, Any]) -> str:
    """The text of a decoded record of __consumer_offsets."""
    partition = f"{fields['topic']}-{fields['partition']}  " if "partition" in fields else ""
    if fields["removed"]:
        return f"{partition}removed"
    if partition:
        metadata = f"  metadata {fields['metadata']!r}" if fields["metadata"] else ""
        return f"{partition}committed {fields['committed_offset']}{metadata}"
    members = ", ".join(
        f"{member['member_id']} {_value_text('', member['assignment'])}" for member in fields["members"]
    )
    protocol = f"{fields['protocol_type']} by {fields['protocol']}" if fields["protocol"] else fields["protocol_type"]
    return f"generation {fields['generation']}  {protocol}  {f'members {members}' if members else 'no members'}"


def _transaction_text(fields: dict[str, Any]) -> str:
    words = [f"  {fields['offset']}", utc_text(fields["timestamp"]), f"transactional id {fields['transactional_id']}"]
    if fields["removed"]:
        return "  ".join([*words, "removed"])
    words += [fields["state"], f"producer {fields['producer_id']}/{fields['producer_epoch']}"]
    if fields["transaction_version"]:
        words.append(f"transaction.version {fields['transaction_version']}")
    if fields["next_producer_id"] is not None:
        words.append(f"next producer {fields['next_producer_id']}")
    if fields["partitions"]:
        words.append(f"partitions {_value_text('', fields['partitions'])}")
    return "  ".join(words)


def _value_text(name: str, value: Any) -> str:
    if isinstance(value, bytes) or value is None:
        return bytes_as_text(value)
    if name.endswith("timestamp") and isinstance(value, int) and value >= 0:
        return utc_text(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{key}: {_value_text(key, held)}" for key, held in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value_text(name, held) for held in value)}]"
    return str(value)


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes_in_json(value)
    if isinstance(value, dict):
        return {key: _json_value(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(held) for held in value]
    if isinstance(value, str):  # A header's key keeps odd bytes as surrogates.
        return bytes_in_json(value.encode(errors="surrogateescape"))
    return value
