"""A broker's condition: requested by name in DescribeConfigs, and read from the store at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from sordini.broker.cluster.health import StoreProbe
from sordini.broker.cluster.health_keys import (
    MEANINGS,
    NONE,
    SERVING,
    STORE_BROKERS,
    STORE_CONTACT,
    STORE_CONTROLLER,
    UNREACHED,
    YES,
    StoreFinding,
)
from sordini.broker.cluster.identity import LocalBroker
from sordini.broker.cluster.store_contact import StoreContact
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, BrokerEndpoint
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.registration import Registration
from sordini.replication.ports import ConnectionLoss, Session, SessionExpired, StoreUnusable
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import ADDRESS, CLUSTER_ID, ME, OTHER, Timers, UnitBroker, a_broker, led

TOPIC, BROKER, LOGGER = 2, 4, 8
OTHER_CLUSTER_ID = "z" * 21 + "g"


@asynccontextmanager
async def a_registered_broker() -> AsyncIterator[UnitBroker]:
    """A broker that the store has, as the controller of its cluster."""
    async with a_broker() as broker:
        await broker.session.create(paths.CLUSTER_ID, znodes.encode_cluster_id(CLUSTER_ID), make_parents=True)
        me = Broker(ME, 0, (BrokerEndpoint("PLAINTEXT", *ADDRESS),))
        epoch = await Registration(broker.session, me, broker.clock, broker.log, session_timeout_ms=0).register()
        broker.parts.receiver.broker_epoch = epoch
        await broker.elect(ME)
        yield broker


def a_request(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(resources=[wanted], include_documentation=True)


async def said(broker: UnitBroker, name: str = "1", keys: tuple[str, ...] = tuple(MEANINGS)) -> dict[str, str | None]:
    """The values of keys of a broker's resource."""
    answer = await broker.ask_later(ApiKey.DESCRIBE_CONFIGS, 4, a_request(BROKER, name, *keys))
    (result,) = answer.results
    assert result.error_code == 0
    assert all(row.read_only and row.documentation for row in result.configs)
    return {row.name: row.value for row in result.configs}


async def test_a_broker_in_contact_says_so_and_what_the_store_has() -> None:
    async with a_registered_broker() as broker:
        reported = await said(broker)
    assert reported == {
        STORE_CONTACT: "connected",
        STORE_BROKERS: "1",
        STORE_CONTROLLER: "1",
        SERVING: YES,
        UNREACHED: "",
    }


async def test_a_store_without_a_controller_is_reported_as_such() -> None:
    async with a_registered_broker() as broker:
        await broker.session.delete(paths.CONTROLLER)
        assert (await said(broker))[STORE_CONTROLLER] == NONE


@pytest.mark.parametrize("name", ["1", ""])
async def test_the_condition_is_described_only_to_those_who_name_it_and_beside_settings(name: str) -> None:
    async with a_registered_broker() as broker:
        for request in (a_request(BROKER, name), a_request(BROKER, name, "log.dirs"), a_request(LOGGER, "1", SERVING)):
            (result,) = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
            assert not {row.name for row in result.configs} & MEANINGS.keys()
        assert await said(broker, name, (SERVING,)) == {SERVING: YES}
        reported = await said(broker, "1", (SERVING, "num.partitions"))
        assert reported == {SERVING: YES, "num.partitions": "1"}


async def test_one_request_describes_the_condition_and_all_settings_of_a_resource_without_it() -> None:
    async with a_registered_broker() as broker:
        resources = [a_request(BROKER, name, *keys).resources[0] for name, keys in (("1", [SERVING]), ("01", []))]
        answer = await broker.ask_later(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources))
    named, whole = answer.results
    assert [row.name for row in named.configs] == [SERVING]
    assert not {row.name for row in whole.configs} & MEANINGS.keys()
    assert len(whole.configs) > 100


async def test_a_store_with_no_cluster_id_or_another_one_has_lost_the_cluster() -> None:
    async with a_registered_broker() as broker:
        await broker.session.set(paths.CLUSTER_ID, znodes.encode_cluster_id(OTHER_CLUSTER_ID))
        reported = await said(broker)
        assert (
            reported[STORE_CONTACT]
            == f"lost: the store has cluster id {OTHER_CLUSTER_ID}, and this broker's is {CLUSTER_ID}"
        )
        assert (reported[SERVING] or "").startswith("no: the store has cluster id")
        assert reported[STORE_BROKERS] is reported[STORE_CONTROLLER] is None
        await broker.session.set(paths.CLUSTER_ID, b"{")
        assert "cannot be read" in ((await said(broker))[STORE_CONTACT] or "")
        await broker.session.delete(paths.CLUSTER_ID)
        assert (await said(broker))[
            STORE_CONTACT
        ] == f"lost: the store has no cluster id, and this broker's is {CLUSTER_ID}"


async def test_a_broker_without_its_registration_is_not_connected_and_serves_on() -> None:
    async with a_registered_broker() as broker:
        broker.parts.receiver.broker_epoch += 1
        reported = await said(broker)
        assert reported[STORE_CONTACT] == "unregistered: the store has another registration of broker 1"
        await broker.session.delete(paths.broker(ME))
        reported = await said(broker)
        assert reported[STORE_CONTACT] == "unregistered: broker 1 is not registered in the store"
        assert (reported[STORE_BROKERS], reported[SERVING]) == ("", YES)


async def test_a_broker_does_not_serve_before_it_is_ready_or_knows_its_cluster_or_leads_what_it_should() -> None:
    async with a_registered_broker() as broker:
        await broker.lead("orders", 2)
        assert (await said(broker))[SERVING] == YES
        metadata = broker.parts.metadata
        metadata.set_partition("orders", metadata.topics["orders"].topic_id, 2, led())
        assert (await said(broker))[SERVING] == (
            "no: 1 of the partitions that this broker should lead are not led, orders-2 among them"
        )
        metadata.set_partition("orders", metadata.topics["orders"].topic_id, 2, led(OTHER))
        broker.parts.replicas.resign_all()
        assert "2 of the partitions" in ((await said(broker))[SERVING] or "")
        metadata.set_brokers(BrokerId(-1), list(metadata.brokers.values()))
        assert (await said(broker))[SERVING] == "no: this broker knows no controller"
        metadata.set_brokers(ME, [])
        assert (await said(broker))[SERVING] == "no: no metadata received from a controller yet"
        broker.parts.health.activity = lambda: "starting"
        assert (await said(broker))[SERVING] == "no: starting"


class AwaySession:
    """A session whose reads fail, or are never answered."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.reads = 0
        self.is_read = asyncio.Event()

    async def get(self, path: str) -> tuple[bytes, Any]:
        self.reads += 1
        self.is_read.set()
        if self.failure is not None:
            raise self.failure
        await asyncio.get_running_loop().create_future()
        raise AssertionError(path)


def a_probe(session: AwaySession, session_timeout_ms: int = 20, contact: StoreContact | None = None) -> StoreProbe:
    contact = contact or StoreContact(StillClock(), Timers().call_later, ListLog())
    return StoreProbe(LocalBroker(ME, lambda: 1, cast("Session", session)), CLUSTER_ID, contact, session_timeout_ms)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (None, "silent: the store did not answer within 10 ms"),
        (ConnectionLoss("/"), "silent: there is no connection to the store"),
        (SessionExpired("/"), "silent: the session with the store has expired, and there is no new one yet"),
        (StoreUnusable("its file is gone"), "silent: the store failed (its file is gone)"),
    ],
)
async def test_a_store_that_does_not_answer_is_silent_and_why(failure: Exception | None, reason: str) -> None:
    word = await a_probe(AwaySession(failure)).read()
    assert (word.contact, str(word), word.brokers) == (StoreFinding.SILENT, reason, None)


async def test_a_silent_store_is_reported_with_the_time_of_its_silence_and_a_lost_one_as_lost() -> None:
    clock = StillClock()
    contact = StoreContact(clock, Timers().call_later, ListLog())
    contact.disconnected(clock.ms + 60_000)
    clock.ms += 12_000
    probe = a_probe(AwaySession(ConnectionLoss("/")), contact=contact)
    assert str(await probe.read()) == "silent: there is no connection to the store; silent for 12000 ms"
    contact.lost_tree = "it has the cluster id of another"
    assert str(await probe.read()) == "lost: it has the cluster id of another"


async def test_however_many_ask_the_store_is_read_once_at_a_time() -> None:
    session = AwaySession()
    probe = a_probe(session)
    words = await asyncio.gather(*(probe.read() for _ in range(50)))
    assert {word.contact for word in words} == {StoreFinding.SILENT}
    assert session.reads == 1
    await probe.read()
    assert session.reads == 2, "an answer is not cached for later requests"


async def test_a_reading_that_is_cancelled_leaves_the_way_free_for_the_next() -> None:
    session = AwaySession()
    probe = a_probe(session, session_timeout_ms=60_000)
    reading = asyncio.create_task(probe.read())
    await session.is_read.wait()
    reading.cancel()
    await asyncio.wait([reading])
    session.failure = ConnectionLoss("/")
    assert (await probe.read()).contact is StoreFinding.SILENT


async def test_a_store_that_does_not_answer_is_no_reason_to_call_a_broker_that_serves_one_that_does_not() -> None:
    async with a_registered_broker() as broker:
        await broker.lead("orders")
        await cast("EmbeddedSession", broker.session).expire()
        reported = await said(broker)
    assert reported[SERVING] == YES
    assert reported[STORE_CONTACT] == "silent: the session with the store has expired, and there is no new one yet"
