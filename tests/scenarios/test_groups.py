"""The groups' transcripts: what happened, `----`, all that came of it, and how the group stands then.

Each file is a story of its own, read like prose. `UPDATE=1 pytest ...` rewrites the answers; review reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sordini.broker.groups.machine import machine
from sordini.broker.groups.machine.events import Leaving
from sordini.broker.groups.machine.state import Protocol
from sordini.protocol.errors import ErrorCode
from tests.support.groups_world import Client, World, describe
from tests.support.transcripts import assert_as_written

STORIES = sorted((Path(__file__).parent / "groups").glob("*.txt"))

LIMITS = {
    "delay": "initial_rebalance_delay_ms",
    "members-max": "members_max",
    "session-min": "session_timeout_ms_min",
    "session-max": "session_timeout_ms_max",
}


def milliseconds(text: str) -> int:
    return int(float(text.removesuffix("s")) * 1000)


def options_of(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def protocols_of(text: str) -> tuple[Protocol, ...]:
    """`range:a,sticky:b`: names and metadata, the best liked first."""
    pairs = [entry.partition(":")[::2] for entry in text.split(",") if entry]
    return tuple(Protocol(name, metadata.encode()) for name, metadata in pairs)


def set_up(client: Client, options: dict[str, str]) -> None:
    """What a client is from now on."""
    for key, value in options.items():
        match key:
            case "static":
                client.instance_id = value
            case "as":
                client.member_id = value
            case "generation":
                client.generation_id = int(value)
            case "protocols":
                client.protocols = protocols_of(value)
            case "type":
                client.protocol_type = value
            case "session":
                client.session_timeout_ms = milliseconds(value)
            case "rebalance":
                client.rebalance_timeout_ms = milliseconds(value)
            case "version":
                client.version = int(value)
            case _:
                raise AssertionError(f"no such option: {key}")


def carry_out(world: World, line: str) -> None:
    """One line of a story."""
    verb, *words = line.split()
    plain = [word for word in words if "=" not in word]
    options = options_of([word for word in words if "=" in word])
    if verb in ("join", "ask", "heartbeat", "commit"):
        client = world.client(plain[0])
        set_up(client, options)
        by_client(world, verb, client)
    elif verb == "restarts":
        world.clients[plain[0]] = Client(plain[0])
    elif verb == "sync":
        name, client = options.pop("protocol", None), world.client(plain[0])
        client.generation_id = int(options.pop("generation", client.generation_id))
        world.sync(client, {key: value.encode() for key, value in options.items()}, name)
    elif verb == "leave":
        world.leave(*(Leaving(world.client(n).member_id, world.client(n).instance_id) for n in plain))
    elif verb == "remove":
        world.leave(*(Leaving(options.get("id", ""), options.get("static")) for _ in options and [0]))
    elif verb == "limits":
        world.limits = world.limits._replace(
            **{LIMITS[k]: milliseconds(v) if v.endswith("s") else int(v) for k, v in options.items()}
        )
    else:
        in_the_world(world, verb, plain)


def by_client(world: World, verb: str, client: Client) -> None:
    match verb:
        case "join":
            world.join(client)
        case "ask":
            world.join(client, once=True)
        case "heartbeat":
            world.heartbeat(client)
        case _:
            world.commit(client)


def in_the_world(world: World, verb: str, words: list[str]) -> None:
    match verb, words:
        case "wait", [duration]:
            world.wait(milliseconds(duration))
        case "stall", [duration]:
            world.stall(milliseconds(duration))
        case "keep", [*names, duration]:
            keep(world, names, milliseconds(duration))
        case "disk", ["waits"]:
            world.disk_waits = True
        case "disk", ["answers", *error]:
            world.disk_answers(ErrorCode[error[0]] if error else None)
        case "restart", []:
            world.restart()
        case "delete", []:
            world.delete()
        case "offsets-gone", []:
            world.offsets_gone()
        case "unload", []:
            world.unload()
        case _:
            raise AssertionError(f"no such line: {verb} {words}")


def keep(world: World, names: list[str], duration_ms: int) -> None:
    """Clients send heartbeats, every three seconds; what they are told is, when it changes."""
    told = dict.fromkeys(names, ErrorCode.NONE)
    for _ in range(duration_ms // 3000):
        world.wait(3000)
        for name in names:
            world.heartbeat(world.client(name))
            error = world.client(name).error
            if error is told[name]:
                world.said.pop()
            told[name] = error or ErrorCode.NONE


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_written(path: Path) -> None:
    world = World()

    def answer(commands: Sequence[str]) -> list[str]:
        for command in commands:
            carry_out(world, command)
        said, world.said = world.said, []
        return [*said, describe(world.group)]

    assert_as_written(path, answer)
    machine.check(world.group)
