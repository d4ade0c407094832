"""A trace of the model of consumer groups as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sordini.broker.groups.consumer.machine.events import Answer, HeartbeatAnswer, Refusal
from sordini.broker.groups.consumer.machine.state import ConsumerMember
from sordini.broker.groups.consumer.member_connections import OlderConnection
from tests.model.consumer_groups.rules import error_of
from tests.model.consumer_groups.state import HEARTBEAT, IN, NAMES, OUT, Client, Request, World, partitions_of
from tests.model.explore import Did


def reported(way: list[tuple[Did, World]], broken: str) -> str:
    """Two lines per step: the step, and the state after it."""
    lines = [
        "A client as epoch {what it consumes} -> {assigned, if less}; a member as epoch {assigned} - {to be given up}."
    ]
    for number, (did, world) in enumerate(way):
        lines += [f"{number:3}. {_done(did)}", f"       {'; '.join(_seen(world))}"]
    lines.append(f"     Broken: {broken}.")
    return "\n".join(lines)


def _done(did: Did) -> str:
    match did:
        case ("starts",):
            return "The group is empty."
        case ("exchanges", request, answer):
            return f"{_request(request)} is answered: {_answer(answer)}."
        case ("is not answered", request, answer):
            return f"{_request(request)} is served; the answer ({_answer(answer)}) is lost."
        case ("is delayed", request):
            return f"{_request(request)} gets no answer in time; {NAMES[request.member]} abandons the connection."
        case ("arrives", request, answer):
            return f"The delayed {_request(request)} arrives: {_answer(answer)}."
        case ("revokes", me, partitions):
            return f"{NAMES[me]} gives up {_set(partitions)}."
        case ("restarts", me):
            return f"{NAMES[me]} abandons its partitions, and is to join again."
        case ("leaves", me, answer):
            return f"{NAMES[me]} leaves: {_answer(answer)}."
        case ("leaves late", me):
            return f"{NAMES[me]} leaves; its last heartbeat is delayed."
        case ("vanishes", me):
            return f"{NAMES[me]} vanishes."
        case ("expires", me):
            return f"The session of {NAMES[me]}, which is no more, expires."
        case ("is fenced", me, deadline):
            return f"The {deadline} timeout of {NAMES[me]} passes."
        case ("moves",):
            return "The coordinator moves; the group is folded from its records."
        case ("is computed", epoch):
            return f"The target of epoch {epoch} is computed."
        case ("grows",):
            return "The topic gets one partition more."
        case ("commits late", me, epoch, partition):
            return f"{NAMES[me]} commits partition {partition} with epoch {epoch}; that is delayed."
    return str(did)


def _request(request: Request) -> str:
    epoch = f" of epoch {request.epoch}" if request.kind == HEARTBEAT else ""
    owned = "" if request.owned is None else f" (owns {_set(request.owned)})"
    return f"{NAMES[request.member]}'s {'full ' * (request.is_full and bool(epoch))}{request.kind}{epoch}{owned}"


def _answer(answer: Answer | OlderConnection | None) -> str:
    if isinstance(answer, OlderConnection):
        return "its connection is older than the member's newest, and closed"
    if isinstance(answer, Refusal):
        return error_of(answer.code)
    assert isinstance(answer, HeartbeatAnswer)
    assignment = "" if answer.assignment is None else f", assignment {_set(partitions_of(answer.assignment))}"
    return f"epoch {answer.member_epoch}{assignment}"


def _seen(world: World) -> Iterator[str]:
    for name, client in zip(NAMES, world.clients, strict=True):
        yield f"{name} {_client(client)}"
    group = world.coordinator.group
    members = [f"{name} {_member(member)}" for name, member in sorted(group.members.items())]
    epochs = f"epoch {group.epoch}, target of {group.assignment_epoch}"
    targets = [f"{name} {_set(partitions_of(target))}" for name, target in sorted(group.targets.items())]
    yield f"group: {group.state.value}, {epochs} ({', '.join(targets) or 'none'}); members: {', '.join(members) or 'none'}"
    shared = world.shared
    on_the_way = [f"{NAMES[one.member]}'s {one.kind}" for one in shared.requests]
    on_the_way += [f"{NAMES[one.member]}'s commit of {one.partition} ({one.epoch})" for one in shared.commits]
    if on_the_way:
        yield f"on the way: {', '.join(on_the_way)}"


def _client(client: Client) -> str:
    if client.phase != IN:
        return "is out" if client.phase == OUT else "is joining"
    to = "" if client.owned <= client.target else f" -> {_set(client.target)}"
    return f"{client.epoch} {_set(client.owned)}{to}{' (removed)' * client.is_void}"


def _member(member: ConsumerMember) -> str:
    pending = f" - {_set(partitions_of(member.pending_revocation))}" if member.pending_revocation else ""
    return f"{member.epoch} {_set(partitions_of(member.assigned))}{pending}"


def _set(partitions: Iterable[int]) -> str:
    return f"{{{', '.join(map(str, sorted(partitions)))}}}"
