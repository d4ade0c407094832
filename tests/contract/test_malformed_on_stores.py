"""Unreadable registrations while this broker is the controller: on every store no other registration is affected."""

from __future__ import annotations

import asyncio

import pytest

from sordini.protocol.types import BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import PartitionState
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.ports import Session
from tests.contract.conftest import Store
from tests.contract.test_controller_on_stores import Obedient, begin, gone

TOPIC_ID = TopicId(b"0123456789abcdef")
ORDERS = TopicPartition("orders", 0)
MALFORMED = {
    "7": b"{not JSON",
    "8": b"",
    "9": b'{"jmx_port":-1,"host":null,"version":5,"port":-1,"timestamp":"1"}',
    "10": b'{"endpoints":["PLAINTEXT://h:999999"],"version":5}',
    "eleven": b'{"endpoints":["PLAINTEXT://h:1"],"version":5}',
    "99999999999": b'{"endpoints":["PLAINTEXT://h:1"],"version":5}',
}


async def led(channel: Obedient, leader: int) -> PartitionState:
    """The first state sent that has this leader."""
    while True:
        _, state = await asyncio.wait_for(channel.led.get(), 20)
        if state.leader == leader:
            return state


@pytest.mark.parametrize("when", ["before the election", "while it is controller"])
async def test_one_controller_stays_and_other_brokers_failures_are_handled(
    store: Store, session: Session, when: str
) -> None:
    await ensure_base_paths(session)
    stranger, other = await store.open_session(), await store.open_session()

    async def register_malformed() -> None:
        for name, data in MALFORMED.items():
            await stranger.create(f"{paths.BROKER_IDS}/{name}", data, ephemeral=True)

    if when == "before the election":
        await register_malformed()
    channel, second_channel = Obedient(), Obedient()
    first = await begin(session, 1, channel)
    second = await begin(other, 2, second_channel)
    await topics.create_topic(session, "orders", {0: (BrokerId(2), BrokerId(1))}, TOPIC_ID, {})
    await led(channel, 2)
    if when == "while it is controller":
        await register_malformed()
    await stranger.set(f"{paths.BROKER_IDS}/7", b"[]")
    await store.expire(other)
    assert (await led(channel, 1)).isr == (BrokerId(1),)
    assert (await session.get(paths.CONTROLLER_EPOCH))[0] == b"1"
    # The next controller is elected among them, too, and at its first attempt.
    third_session = await store.open_session()
    third_channel = Obedient()
    third = await begin(third_session, 3, third_channel)
    await first.stop()
    await third.caught_up()
    while not third.is_active:
        await led(third_channel, 1)
    assert (await third_session.get(paths.CONTROLLER_EPOCH))[0] == b"2"
    await third.stop()
    await asyncio.wait_for(second.wait_closed(), 20)
    await stranger.close()


async def test_a_tools_note_of_preferred_elections_is_taken_away_on_every_store(store: Store, session: Session) -> None:
    await ensure_base_paths(session)
    channel = Obedient()
    controller = await begin(session, 1, channel)
    for note in (b"{not JSON", znodes.encode_preferred_election([ORDERS])):
        await session.create(paths.PREFERRED_ELECTION, note)
        await gone(session, paths.PREFERRED_ELECTION)
    await controller.stop()
