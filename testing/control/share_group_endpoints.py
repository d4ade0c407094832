"""What the control does to share groups, and says of them."""

from __future__ import annotations

from typing import Any, Final

from sordini.testing.control.controlled import Asked, Control
from sordini.testing.control.shapes import fault_json, in_flight_json, share_group_json
from sordini.testing.share_group_handle import ACKNOWLEDGING, COUNT_MAX

RECORDS_MAX: Final = 10_000
"""In one response."""


def share_group(control: Control, asked: Asked) -> Any:
    with control.one_at_a_time:
        group = control.kafka.share_group(asked.parts["group"])
        return share_group_json(group.describe(), group.offsets())


def in_flight(control: Control, asked: Asked) -> Any:
    topic = asked.fields.text("topic", None)
    asked.fields.refuse_others()
    with control.one_at_a_time:
        found = control.kafka.share_group(asked.parts["group"]).in_flight(topic)
    return {"records": [*map(in_flight_json, found[:RECORDS_MAX])], "more": len(found) > RECORDS_MAX}


def expire_locks(control: Control, asked: Asked) -> Any:
    topic = asked.fields.text("topic", None)
    asked.fields.refuse_others()
    with control.one_at_a_time:
        found = control.kafka.share_group(asked.parts["group"]).expire_locks(topic)
    return {"expired": [*map(in_flight_json, found[:RECORDS_MAX])]}


def refuse_acknowledgements(control: Control, asked: Asked) -> Any:
    code = asked.fields.text("error", "INVALID_RECORD_STATE")
    times = asked.fields.whole("times", 1, COUNT_MAX, None)
    member = asked.fields.text("member", None)
    asked.fields.refuse_others()
    group = control.kafka.share_group(asked.parts["group"])
    with control.one_at_a_time:
        made = control.add_faults(
            lambda: group.refuse_acknowledgements(code, times=times, member_id=member).rules, len(ACKNOWLEDGING)
        )
    return {"faults": [fault_json(number, rule) for number, rule in made]}
