"""The transactions' transcripts: commands, `----`, the answers, writes and markers that follow, and the state.

Each file is one scenario of one transactional id. `UPDATE=1 pytest ...` rewrites the answers, for review.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.transactions.machine import machine
from sordini.broker.transactions.machine.events import ProducerIdentity
from sordini.broker.transactions.records import EMPTY_STATE, TransactionValue
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from tests.support.transactions_world import World, state_line
from tests.support.transcripts import assert_as_written

STORIES = sorted((Path(__file__).parent / "transactions").glob("*.txt"))


def milliseconds(text: str) -> int:
    return int(float(text.removesuffix("s")) * 1000)


def partition_of(word: str) -> TopicPartition:
    topic, _, index = word.rpartition("-")
    return TopicPartition(topic, int(index))


def carry_out(world: World, line: str) -> None:
    """Carry out one command of a transcript."""
    verb, *words = line.split()
    plain = [word for word in words if "=" not in word]
    options = dict(word.split("=", 1) for word in words if "=" in word)
    if "epoch" in options:  # A producer that claims it.
        claimed = ProducerIdentity(int(options.get("id", world.transaction.producer_id)), int(options["epoch"]))
        world.producers[plain[0]] = claimed
    match verb, plain:
        case "init", [client]:
            world.init(client, timeout_ms=milliseconds(options.get("timeout", "60s")))
        case "raise", [client]:
            world.init(client, keeps=True)
        case "add", [client, *names]:
            world.add(client, *map(partition_of, names))
        case "verify", [client, *names]:
            verify(world, client, [partition_of(name) for name in names])
        case (("commit" | "abort"), [client]):
            world.end(client, commits=verb == "commit")
        case _:
            by_coordinator(world, verb, plain)


def by_coordinator(world: World, verb: str, words: list[str]) -> None:
    match verb, words:
        case "wait", [duration]:
            world.wait(milliseconds(duration))
        case "log", ["waits"]:
            world.log_waits = True
        case "log", ["works"]:
            world.log_waits = False
        case "log", ["answers", *error]:
            world.log_answers(ErrorCode[error[0]] if error else None)
        case "markers", ["wait"]:
            world.markers_wait = True
        case "markers", ["arrive"]:
            world.write_markers()
        case "load", [epoch]:
            world.load(TransactionValue(1000, int(epoch), 60_000, EMPTY_STATE, (), world.now_ms))
        case "clients", ["raise"]:
            world.is_exclusive, world.client_version = True, RAISES_EPOCH
        case "clients", ["keep"]:
            world.client_version = 0
        case "restart", []:
            world.restart()
        case "expire", []:
            world.expire()
        case _:
            raise AssertionError(f"no such command: {verb} {words}")


def verify(world: World, client: str, partitions: list[TopicPartition]) -> None:
    codes = machine.verified(world.transaction, world.producer(client), partitions)
    world.said += [f"verified {partition} {code.name}" for partition, code in codes.items()]


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_written(path: Path) -> None:
    world = World()

    def answer(commands: Sequence[str]) -> list[str]:
        for command in commands:
            carry_out(world, command)
        said, world.said = world.said, []
        return [*said, state_line(world.transaction)]

    assert_as_written(path, answer)
    assert not world.waiting or world.write is not None, "requests without an answer"
