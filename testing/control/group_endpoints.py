"""What the control does to groups, and says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordini.testing.control.controlled import Asked, Control
from sordini.testing.control.shapes import fault_json, group_json
from sordini.testing.group_handle import RULES_MAX, GroupFault, GroupHandle


def expel(control: Control, asked: Asked) -> Any:
    member = asked.fields.text("member", None)
    asked.fields.refuse_others()
    with control.one_at_a_time:
        members = control.kafka.members(asked.parts["group"]) if member is None else []
        expelled = [one.id for one in members] if member is None else [member]
        control.kafka.expel(asked.parts["group"], expelled)
    return {"expelled": expelled}


def group(control: Control, asked: Asked) -> Any:
    with control.one_at_a_time:
        return group_json(control.kafka.group(asked.parts["group"]).describe())


def fence(control: Control, asked: Asked) -> Any:
    named = _member_of(asked)
    asked.fields.refuse_others()
    return _faults(control, asked, lambda group: group.fence(**named))


def hold_heartbeats(control: Control, asked: Asked) -> Any:
    named, before = _member_of(asked), asked.fields.flag("before", default=False)
    asked.fields.refuse_others()
    return _faults(control, asked, lambda group: group.hold_heartbeats(**named, before=before))


def refuse_assignor(control: Control, asked: Asked) -> Any:
    assignor = asked.fields.text("assignor", None)
    asked.fields.refuse_others()
    return _faults(control, asked, lambda group: group.refuse_assignor(assignor))


def _member_of(asked: Asked) -> dict[str, Any]:
    """Which member, of the fields that name one."""
    return {name: asked.fields.text(name, None) for name in ("member", "instance_id")}


def _faults(control: Control, asked: Asked, make: Callable[[GroupHandle], GroupFault]) -> Any:
    group = control.kafka.group(asked.parts["group"])
    with control.one_at_a_time:
        made = control.add_faults(lambda: make(group).rules, RULES_MAX)
    return {"faults": [fault_json(number, rule) for number, rule in made]}
