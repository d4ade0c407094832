"""Changes of groups: offsets reset, after a plan that the visitor has seen; a member removed.

A share group's start offsets are reset in the same way as a consumer group's committed offsets.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from sordini.admin.groups.group_description import SHARE, describe_group
from sordini.admin.groups.group_requests import committed_offsets
from sordini.admin.groups.member_removal import remove_member
from sordini.admin.groups.offset_reset import ResetPlan, ResetRequest, reset_offsets
from sordini.admin.groups.offset_reset_plan import PlannedReset
from sordini.admin.shares.share_offsets import share_offsets
from sordini.admin.shares.share_reset import reset_share_offsets
from sordini.cli.common.argument_types import parse_duration_ms, parse_instant, parse_topic_partitions
from sordini.client.errors import ClientError
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit, WrongInput

TARGETS: Final = (
    "to_latest",
    "to_earliest",
    "to_current",
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
)
SHARE_TARGETS: Final = ("to_latest", "to_earliest", "to_offset", "to_datetime", "by_duration")
PLAN: Final = "reset plan"
ROWS_SHOWN: Final = 500


def routes(gate: LoginGate) -> list[Route]:
    return [
        gate.get("/group/reset", show_reset),
        gate.post("/group/reset/plan", show_plan),
        gate.post("/group/reset", commit_plan),
        gate.get("/group/remove-member", show_removal),
        gate.post("/group/remove-member", remove),
    ]


async def show_reset(visit: Visit) -> Response:
    """The form."""
    name = visit.needed("name")
    is_share = await _is_share(visit, name)
    offsets = await (share_offsets if is_share else committed_offsets)(visit.cluster, name)
    return visit.page(
        "group_reset.html",
        name=name,
        tab="reset",
        topics=sorted({partition.topic for partition in offsets}),
        targets=SHARE_TARGETS if is_share else TARGETS,
        is_share=is_share,
        plan=None,
        token="",
        fields={},
    )


async def show_plan(visit: Visit) -> Response:
    """What the reset would do: nothing is changed."""
    is_share = await _is_share(visit, visit.needed("name"))
    request = _request(visit, is_share=is_share)
    plan = await _reset(visit, request, is_share=is_share)
    return _plan_page(visit, request, plan, is_share=is_share)


async def commit_plan(visit: Visit) -> Response:
    """Do it, if the plan is still the one that the visitor has seen."""
    is_share = await _is_share(visit, visit.needed("name"))
    request = _request(visit, is_share=is_share)
    plan = await _reset(visit, request, is_share=is_share)
    parts = _parts(request.group, plan.lines, is_share=is_share)
    if not visit.console.tokens.is_valid(visit.field("plan"), PLAN, visit.session.key, *parts):
        problem = "The plan is another one now: nothing was changed. Read it again."
        return _plan_page(visit, request, plan, problem, is_share=is_share)
    try:
        await _reset(visit, _as_planned(request, plan), is_share=is_share, execute=True)
    except ClientError as error:
        visit.audit("reset offsets", f"failed: {error}", group=request.group)
        raise
    visit.audit("reset offsets", "done", group=request.group, offsets=len(plan.lines))
    count = len(plan.lines)
    notice = f"The offsets of {count} partition{'' if count == 1 else 's'} of group {request.group} were reset."
    return visit.go("/group", notice, name=request.group)


async def _is_share(visit: Visit, name: str) -> bool:
    return (await describe_group(visit.cluster, name)).kind == SHARE


async def _reset(visit: Visit, request: ResetRequest, *, is_share: bool, execute: bool = False) -> ResetPlan:
    """The plan, carried out with `execute`."""
    return await (reset_share_offsets if is_share else reset_offsets)(visit.cluster, request, execute=execute)


def _as_planned(request: ResetRequest, plan: ResetPlan) -> ResetRequest:
    """The offsets of the plan themselves: a target such as the end may have moved since."""
    lines = "".join(f"{line.partition.topic},{line.partition.partition},{line.new}\n" for line in plan.lines)
    return ResetRequest(request.group, (), "from_file", lines)


def _parts(group: str, lines: list[PlannedReset], *, is_share: bool) -> list[str]:
    return ["share" if is_share else "consumer", group, *(f"{line.partition}:{line.new}" for line in lines)]


def _plan_page(
    visit: Visit, request: ResetRequest, plan: ResetPlan, problem: str | None = None, *, is_share: bool
) -> Response:
    parts = _parts(request.group, plan.lines, is_share=is_share)
    token = visit.console.tokens.token(PLAN, visit.session.key, *parts)
    return visit.page(
        "group_reset.html",
        name=request.group,
        tab="reset",
        topics=[],
        targets=(),
        is_share=is_share,
        plan=plan,
        lines=plan.lines[:ROWS_SHOWN],
        problem=problem,
        token=token,
        fields={name: visit.field(name) for name in ("topics", "target", "value")},
    )


def _request(visit: Visit, *, is_share: bool) -> ResetRequest:
    """The form. Raises WrongInput."""
    target = visit.choice("target", SHARE_TARGETS if is_share else TARGETS)
    text = visit.field("value").strip()
    try:
        wanted = [parse_topic_partitions(part) for part in visit.field("topics").split()]
        return ResetRequest(visit.needed("name"), wanted, target, _value(target, text))
    except ValueError as error:
        raise WrongInput(str(error)) from None


def _value(target: str, text: str) -> int | bool:
    """What goes with a target. Raises ValueError."""
    match target:
        case "to_offset" | "shift_by":
            digits = text.removeprefix("-")
            if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
                raise ValueError(f"{text!r} is no whole number")
            if target == "to_offset" and int(text) < 0:
                raise ValueError(f"{text!r} is no offset: allowed are whole numbers from 0 on")
            return int(text)
        case "to_datetime":
            return parse_instant(text)
        case "by_duration":
            return parse_duration_ms(text)
    return True


async def show_removal(visit: Visit) -> Response:
    """The question before a member is removed."""
    return visit.page(
        "remove_member.html",
        name=visit.needed("name"),
        tab="members",
        member=visit.needed("member"),
        instance=visit.field("instance"),
    )


async def remove(visit: Visit) -> Response:
    """Remove it."""
    name, member = visit.needed("name"), visit.needed("member")
    try:
        await remove_member(visit.cluster, name, member, visit.field("instance") or None)
    except ClientError as error:
        visit.audit("remove member", f"failed: {error}", group=name, member=member)
        raise
    visit.audit("remove member", "done", group=name, member=member)
    return visit.go("/group", f"Member {member} was removed; its client may join again.", name=name)
