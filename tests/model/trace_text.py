"""A trace of the model as text."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.rules import Did
from tests.model.state import ALL_REPLICAS, NO_LEADER, NONE, Answer, Ask, Copy, Following, Leading, World, members

NAMES = "ABC"


def reported(way: list[tuple[Did, World]], broken: str) -> str:
    """Two lines per step: the step, and the state after it."""
    lines = ["Every copy as [epochs of its records], `|` where its high watermark is."]
    for number, (did, world) in enumerate(way):
        lines += [f"{number:3}. {_done(did)}", f"       {_seen(world)}"]
    lines.append(f"     Broken: {broken}.")
    return "\n".join(lines)


def _done(did: Did) -> str:
    match did:
        case ("starts",):
            return f"A new partition: {NAMES[0]} is to lead in epoch 0, all are in sync; no LeaderAndIsr has arrived."
        case ("elects", leader, epoch, isr):
            return f"The controller elects {NAMES[leader]} for epoch {epoch}; in sync: {_set(isr)}."
        case ("is commanded", me, epoch, command):
            role = "leads" if command.leader == me else f"follows {NAMES[command.leader]}"
            return f"LeaderAndIsr of epoch {epoch} reaches {NAMES[me]}: it {role}, in sync: {_set(command.isr)}."
        case ("restarts", me, high_watermark):
            return f"{NAMES[me]} restarts and is sent the state node; its checkpoint of the high watermark is {high_watermark}."
        case ("is cut off", me):
            return f"{NAMES[me]} is cut off from the coordination store."
        case ("finds its session", me):
            return f"{NAMES[me]} reaches the store again, in its session."
        case ("registers again", me):
            return f"{NAMES[me]} reaches the store again, registers again and is sent the state node."
        case ("appends", me):
            return f"{NAMES[me]} appends a record."
        case ("proposes", me, other):
            return f"{NAMES[me]} proposes {NAMES[other]} for the in-sync set."
        case ("finds slow", me, slow):
            return f"{NAMES[me]} finds {_set(slow)} slow."
        case ("receives the grant", me, _):
            return f"{NAMES[me]} receives the grant of its proposal."
        case ("is refused", me):
            return f"{NAMES[me]}'s proposal is refused."
        case ("gives up", me):
            return f"{NAMES[me]} gets no answer to its proposal and takes that for a refusal."
        case ("is granted", me):
            return f"{NAMES[me]}'s proposal is granted."
        case ("requests", me, ask):
            return f"{NAMES[me]} {_asked(ask)}; that is on its way."
        case ("loses", me):
            return f"The request of {NAMES[me]}, or its response, is lost."
        case ("takes the answer", me, answer):
            return f"The answer reaches {NAMES[me]}: {_answered(answer)}."
        case ("exchanges", me, other, ask, answer):
            return f"{NAMES[me]} {_asked(ask)}. {NAMES[other]} answers: {_answered(answer)}."
    return str(did)


def _asked(ask: Ask) -> str:
    to = f"{NAMES[ask.leader]}, in epoch {ask.leader_epoch},"
    if not ask.is_fetch:
        return f"requests the end offset of epoch {ask.last_fetched_epoch} from {to}"
    after = "" if ask.last_fetched_epoch == NONE else f", after a record of epoch {ask.last_fetched_epoch}"
    return f"fetches from {to} at {ask.fetch_offset}{after}"


def _answered(answer: Answer) -> str:
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        return f"truncate to {end_offset}" if epoch == NONE else f"epoch {epoch} ended at {end_offset}"
    records = f"records of epochs {list(answer.records)}" if answer.records else "nothing new"
    return f"{records}, high watermark {answer.high_watermark}"


def _seen(world: World) -> str:
    copies = "  ".join(f"{NAMES[me]} {_copy(copy)}" for me, copy in enumerate(world.copies))
    node = world.shared
    cut = f"; cut off: {_set(node.cut)}" if node.cut else ""
    return f"{copies}  state node: {NAMES[node.leader]} in epoch {node.epoch}, in sync: {_set(node.isr)}{cut}"


def _copy(copy: Copy) -> str:
    return f"{''.join(_log(copy))} {_role(copy)}{'' if copy.under_way is None else ' (fetching)'};"


def _log(copy: Copy) -> Iterator[str]:
    yield "["
    for offset, epoch in enumerate((*copy.log, NONE)):
        if offset == copy.high_watermark:
            yield "|"
        if epoch != NONE:
            yield str(epoch)
    yield "]"


def _role(copy: Copy) -> str:
    role = copy.role
    if isinstance(role, Following):
        follows = "idle" if role.leader == NO_LEADER else f"follows {NAMES[role.leader]}"
        return f"{follows} in {copy.epoch}" if copy.epoch != NONE else "new"
    assert isinstance(role, Leading)
    proposed = f"+?{_set(role.proposed)}" if role.proposed else ""
    return f"leads in {copy.epoch} with {_set(role.isr)}{proposed}"


def _set(mask: int) -> str:
    return "all" if mask == ALL_REPLICAS else "".join(NAMES[member] for member in members(mask))
