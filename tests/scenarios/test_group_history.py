"""Transcripts of what the coordinator remembers of rebalances: commands as in the groups' transcripts, then the history.

Metadata of a protocol is written as topics (`protocols=range:orders+bills`), an assignment as partitions
(`A=orders/0/1`). Each answer has the rebalances that the commands changed, and the one in progress.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sordini.broker.groups.machine.events import GroupLimits, LeavingMember
from sordini.broker.groups.machine.rebalance_history import CauseEntry, MemberName, Rebalance
from sordini.broker.groups.machine.state import Protocol
from sordini.protocol.consumer_assignment import written_assignment
from tests.scenarios.test_groups import carry_out
from tests.support.groups_world import EPOCH_MS, Client, World
from tests.support.transcripts import assert_as_written

STORIES = sorted((Path(__file__).parent / "group_history").glob("*.txt"))


def subscription(topics: str, user_data: str = "") -> bytes:
    """ConsumerProtocolSubscription v0."""
    names = [name.encode() for name in topics.split("+") if name]
    body = b"".join(struct.pack(">h", len(name)) + name for name in names)
    data = user_data.encode()
    return struct.pack(">hi", 0, len(names)) + body + struct.pack(">i", len(data)) + data


def assignment(text: str) -> bytes:
    """`orders/0/1+bills/0`, with empty user data: transcripts show the bytes as text."""
    topics = []
    for topic in filter(None, text.split("+")):
        name, *partitions = topic.split("/")
        topics.append((name, [*map(int, partitions)]))
    return written_assignment(0, topics).removesuffix(b"\xff" * 4) + struct.pack(">i", 0)


class ConsumerWorld(World):
    """Clients whose metadata and assignments are consumers'."""

    def join(self, client: Client, *, once: bool = False) -> None:
        client.protocols = tuple(map(_as_consumer, client.protocols))
        super().join(client, once=once)

    def sync(self, client: Client, shares: Mapping[str, bytes], protocol_name: str | None = None) -> None:
        encoded = {name: assignment(share.decode()) for name, share in shares.items()}
        super().sync(client, encoded, protocol_name)


def _as_consumer(protocol: Protocol) -> Protocol:
    if protocol.metadata[:1] == b"\0":
        return protocol
    topics, _, user_data = protocol.metadata.decode().partition("#")
    return Protocol(protocol.name, subscription(topics, user_data))


def story_of(rebalance: Rebalance) -> list[str]:
    began = rebalance.began_ms - EPOCH_MS
    ended = "in progress" if rebalance.ended_ms < 0 else f"took {rebalance.duration_ms} ms"
    lines = [f"generation {rebalance.generation_before} -> {rebalance.generation_after} at {began} ms, {ended}"]
    lines += [f"  because {_cause(entry)}" for entry in rebalance.causes]
    if rebalance.ended_ms >= 0:
        lines += [f"  {_who(m.member)}: {m.partitions} partitions, waited {m.waited_ms} ms" for m in rebalance.members]
        lines += [f"  {m.topic}:{m.partition} {m.source} -> {m.target}" for m in rebalance.moves]
    return lines if rebalance.partitions_known or rebalance.ended_ms < 0 else [*lines, "  partitions not known"]


def _cause(entry: CauseEntry) -> str:
    words = [entry.cause.name, f"at {entry.at_ms - EPOCH_MS} ms"]
    words += [_who(entry.member)] if entry.member.member_id else []
    return " ".join([*words, f"({entry.detail})"] if entry.detail else words)


def _who(name: MemberName) -> str:
    return name.member_id if name.group_instance_id is None else f"{name.member_id} [{name.group_instance_id}]"


def act(world: World, command: str) -> None:
    verb, *words = command.split()
    options = dict(word.split("=", 1) for word in words if "=" in word)
    if verb == "leave-as":  # leave-as client-id=x id=A-1 reason=bye
        members = [LeavingMember(name, None, options.get("reason")) for name in options["id"].split(",")]
        world.leave(*members, client_id=options["client-id"])
    else:
        carry_out(world, command)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_history_is_as_it_is_written(path: Path) -> None:
    world = ConsumerWorld(limits=GroupLimits(initial_rebalance_delay_ms=0))
    shown: list[Rebalance] = []

    def answer(commands: Sequence[str]) -> list[str]:
        for command in commands:
            act(world, command)
        world.said.clear()
        current = world.history.in_progress(world.group)
        rebalances = [*world.history.entries, *([] if current is None else [current])]
        fresh = [rebalance for rebalance in rebalances if rebalance not in shown]
        shown[:] = rebalances
        return [line for rebalance in fresh for line in story_of(rebalance)] or ["nothing new"]

    assert_as_written(path, answer)
