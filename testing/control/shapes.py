"""Brokers, faults and requests as JSON, and back. Pure.

{"api": "Produce", "topic": "orders", "times": 2, "do": "fail", "code": "NOT_ENOUGH_REPLICAS"}      a fault
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from operator import methodcaller
from typing import Any, Final

from sordini.protocol.declare import fields_of
from sordini.protocol.served_apis import ALL_APIS
from sordini.testing.cluster import Address, BrokerState
from sordini.testing.control.fields import Fields
from sordini.testing.faults.names import api_of, api_text
from sordini.testing.faults.script import Kind, Rule, RuleBook
from sordini.testing.faults.seen import SeenRequest, Sender
from sordini.testing.faults.validation import SELECTED, rule
from sordini.testing.group_state import GroupState
from sordini.testing.share_group_state import InFlightRecord, ShareGroupState, SharePartitionOffsets

ACTIONS: Final[dict[str, Callable[[Fields], Callable[[Rule], object]]]] = {
    "fail": lambda fields: methodcaller("fail", fields.any("code", "a name of the Kafka protocol")),
    "delay": lambda fields: methodcaller(
        "delay", fields.any("ms", "a number"), before=fields.flag("before", default=False)
    ),
    "hold": lambda fields: methodcaller("hold", before=fields.flag("before", default=False)),
    "drop_answer": lambda _: methodcaller("drop_answer"),
    "drop_request": lambda _: methodcaller("drop_request"),
    "close_connection": lambda fields: methodcaller(
        "close_connection", after=fields.flag("after_handling", default=False)
    ),
    "corrupt": lambda _: methodcaller("corrupt"),
}
"""What a fault does, by the word for `do`: each reads its fields, and returns what is done to a rule."""


def rule_of(fields: Fields, script: RuleBook, brokers: Collection[int]) -> Rule:
    """The rule of a fault's JSON, in force. Raises WrongRequest and ArgumentRefused, and then none is."""
    api = fields.any("api", "a text")
    selected = {name: fields.any(name, default=None) for name in SELECTED[:-1]}  # No function comes over HTTP.
    times, after = fields.any("times", default=None), fields.any("after", default=0)
    choose = ACTIONS[fields.text("do", one_of=list(ACTIONS))](fields)
    fields.refuse_others()
    made = rule(script, api, selected, brokers, times, after)
    choose(made)
    return made


def fault_json(number: int, rule: Rule, *, is_in_force: bool = True) -> dict[str, Any]:
    """A fault with what it has done so far."""
    return {"id": number, "in_force": is_in_force, "used": rule.used, "text": rule.text(), **rule_json(rule)}


def rule_json(rule: Rule) -> dict[str, Any]:
    """A rule as `rule_of` reads it."""
    bounds = {**({} if rule.times is None else {"times": rule.times}), **({"after": rule.after} if rule.after else {})}
    match rule.kind:
        case Kind.FAIL:
            done: dict[str, Any] = {"do": "fail", "code": rule.code.name}
        case Kind.DELAY:
            done = {"do": "delay", "ms": rule.delay_ms, "before": rule.is_before}
        case Kind.HOLD:
            done = {"do": "hold", "before": rule.is_before}
        case Kind.DROP:
            done = {"do": "drop_request" if rule.is_before else "drop_answer"}
        case Kind.CLOSE:
            done = {"do": "close_connection", "after_handling": not rule.is_before}
        case Kind.CORRUPT:
            done = {"do": "corrupt"}
        case None:
            done = {}
    return {"api": api_text(rule.selection.api), **rule.selection.given, **bounds, **done}


def broker_json(state: BrokerState) -> dict[str, Any]:
    return {
        "id": state.id,
        "running": state.is_running,
        "paused": state.is_paused,
        "cut_from": list(state.cut_from),
        "bootstrap_server": "{}:{}".format(*next(iter(state.listeners.values()))),
        "listeners": {name: "{}:{}".format(*end) for name, end in state.listeners.items()},
        "without_faults": "{}:{}".format(*state.brokers),
    }


def broker_of(found: dict[str, Any]) -> BrokerState:
    """The inverse of `broker_json`."""
    listeners = {name: _address(end) for name, end in found["listeners"].items()}
    brokers = _address(found["without_faults"])
    return BrokerState(found["id"], found["running"], found["paused"], tuple(found["cut_from"]), listeners, brokers)


def group_json(group: GroupState) -> dict[str, Any]:
    """A group and its members."""
    return {
        "name": group.name,
        "protocol": group.protocol,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "members": [
            {
                "id": member.id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "protocol": member.protocol,
                "epoch": member.epoch,
                "assigned": [{"topic": one.topic, "partition": one.partition} for one in member.assigned],
                "target": [{"topic": one.topic, "partition": one.partition} for one in member.target],
            }
            for member in group.members
        ],
    }


def share_group_json(
    group: ShareGroupState, offsets: Mapping[tuple[str, int], SharePartitionOffsets]
) -> dict[str, Any]:
    """A share group, its members and its partitions."""
    return {
        "name": group.name,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "members": [
            {
                "id": member.id,
                "client_id": member.client_id,
                "epoch": member.epoch,
                "assigned": [{"topic": one.topic, "partition": one.partition} for one in member.assigned],
            }
            for member in group.members
        ],
        "partitions": [
            {"topic": topic, "partition": partition, "start_offset": row.start, "lag": row.lag}
            for (topic, partition), row in sorted(offsets.items())
        ],
    }


def in_flight_json(record: InFlightRecord) -> dict[str, Any]:
    """A record in flight."""
    return record._asdict()


def _address(end: str) -> Address:
    host, _, port = end.rpartition(":")
    return host, int(port)


def request_json(request: SeenRequest, form: str) -> dict[str, Any]:
    """A request of a client. `form` is what is shown of its message: `body`, `wire` or `none`."""
    shape = {
        "number": request.number,
        "time_s": round(request.time_s, 6),
        "broker": request.broker,
        "connection": request.connection,
        "client_id": request.client_id,
        "api": request.api,
        "version": request.version,
        "fault": request.fault,
    }
    if form == "wire":
        return {**shape, "wire": base64.b64encode(request.data).decode()}
    if form == "none":
        return shape
    sequences = [
        {"topic": topic, "partition": partition, "sequence": first} for topic, partition, first in request.sequences
    ]
    return {**shape, "sequences": sequences, "body": message_json(request.body, request.version)}


def request_of(found: dict[str, Any]) -> SeenRequest:
    """The inverse of `request_json` with the form `wire`."""
    request = SeenRequest(
        found["number"],
        found["time_s"],
        Sender(found["broker"], found["connection"], found["client_id"]),
        ALL_APIS[api_of(found["api"])],
        found["version"],
        base64.b64decode(found["wire"]),
    )
    request.fault = found["fault"]
    return request


def message_json(value: Any, version: int) -> Any:
    """A message: the fields of its version by their names, bytes as base64."""
    if isinstance(value, list):
        return [message_json(one, version) for one in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    cls: Any = type(value)
    return {
        field.name: message_json(getattr(value, field.name), version)
        for field in fields_of(cls)
        if field.spec.is_in(version)
    }
