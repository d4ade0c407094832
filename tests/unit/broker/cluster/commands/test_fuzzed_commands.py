"""Random inter-broker requests to one broker of a cluster, also as the controller that the store names.

A controller may create and delete partitions, so changes are allowed. The law is that nothing breaks: each request has an answer or ends its connection, no handler fails, every directory is a partition's, and the next start
finds checkpoints that it can read. `SORDINI_FUZZED=100000` sets their number.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse, release_parts
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import request_header
from sordini.protocol.served_apis import APIS
from sordini.storage import names
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import Identity, LogManager
from tests.soak.generator import BETWEEN, TOPICS, Generator
from tests.support.unit_broker import CLUSTER_ID, ME, OTHER, UnitBroker, a_broker

REQUESTS = int(os.environ.get("SORDINI_FUZZED", "300"))
SEEDS = range(2)
COMMANDS = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})
TURNS = 30
"""Of the loop, between a request and the next: enough for most of what it asks for, and some overlap."""


def as_controller(chance: random.Random) -> Callable[[ApiKey, Any], None]:
    """What makes most commands those of the controller of the store, for replicas that may be here."""

    def change(key: ApiKey, message: Any) -> None:
        if key not in COMMANDS:
            return
        if chance.random() < 0.8:
            message.controller_id, message.controller_epoch, message.broker_epoch = OTHER, 1, -1
        states = list(getattr(message, "ungrouped_partition_states", ()))
        states += [state for topic in getattr(message, "topic_states", ()) for state in topic.partition_states]
        for state in states:
            if hasattr(state, "replicas") and chance.random() < 0.8:
                state.replicas = state.isr = [ME, OTHER]
                state.leader, state.leader_epoch = chance.choice((ME, OTHER, -1)), chance.randrange(100)
                state.partition_index = chance.randrange(4)

    return change


async def ask(broker: UnitBroker, generator: Generator, change: Callable[[ApiKey, Any], None]) -> None:
    api = generator.chance.choice([api for api in APIS.values() if api.key in BETWEEN])
    version = generator.chance.randint(api.min_version, api.max_version)
    message = generator.message(api, version)
    change(ApiKey(api.key), message)
    body = request_header(api, version, 77, "fuzz") + codecs.encode(message, version)
    try:
        answer = broker.parts.dispatcher.serve(broker.peer, memoryview(bytearray(body)))
    except WireError:
        return
    for _ in range(TURNS):
        await asyncio.sleep(0)
    if isinstance(answer, DelayedResponse):
        if answer.is_answered:
            release_parts(answer.parts or [])
        else:
            answer.abandon()
    elif answer is not None:
        release_parts(answer)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_clustered", [True, False], ids=["of several", "alone"])
async def test_random_requests_between_brokers_break_nothing(seed: int, is_clustered: bool) -> None:
    async with a_broker(is_clustered=is_clustered) as broker:
        await broker.elect(OTHER, 1)
        await broker.lead(TOPICS[0], 2)
        generator = Generator(f"commands {seed}")
        change = as_controller(generator.chance)
        for _ in range(REQUESTS // len(SEEDS)):
            await ask(broker, generator, change)
        if is_clustered:
            assert len(broker.disk.directories("/logs")) > 3, "commands are obeyed at all"
        else:
            assert broker.disk.directories("/logs") == [f"{TOPICS[0]}-0", f"{TOPICS[0]}-1"]
        await works_after_it(broker)
        found = broker.disk.directories("/logs")
        assert [name for name in found if names.partition_of(name) is None and not names.is_pending_delete(name)] == []
        assert [line for line in broker.log.lines if line[0] == "error"] == []
        await broker.logs.tick(10**9)
        await broker.logs.close()
        again = LogManager(broker.disk, ["/logs"], Identity(ME, CLUSTER_ID), lambda _: LogConfig(), random.Random(seed))
        assert again.open(0) == []
        await again.close()
        for task in broker.tasks:
            task.cancel()


async def works_after_it(broker: UnitBroker) -> None:
    """The controller is obeyed as before."""
    assert broker.logs.online_directories == ["/logs"]
    await broker.elect(ME, 2)
    await broker.lead("after-it", epoch=3)
    assert broker.parts.replicas.partition("after-it", 0).leader is not None
