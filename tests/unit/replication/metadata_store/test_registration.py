"""Registration, the cluster id, config changes and producer ids."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sordini.broker.cluster.peers.producer_ids_in_store import StoreProducerIdBlocks
from sordini.broker.coordinators.producer_id_manager import ProducerIdManager
from sordini.coordination_store.current_session import CurrentSession
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, BrokerEndpoint
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.change_notifications import NOTIFICATIONS_KEPT_MS
from sordini.replication.metadata_store.configs import ConfigChanges, read_config
from sordini.replication.metadata_store.registration import (
    DuplicateBrokerId,
    EndpointTaken,
    Registration,
    check_endpoints_free,
    cluster_id,
    ensure_base_paths,
    other_brokers,
)
from sordini.replication.ports import StoreUnusable
from tests.support.fake_ports import ListLog

BROKER = Broker(BrokerId(4), 0, (BrokerEndpoint("PLAINTEXT", "h", 9092),))


async def test_a_registration_ends_with_its_session_and_its_epoch_is_its_creation(
    store: EmbeddedStore, session: EmbeddedSession, clock: Any, log: Any
) -> None:
    other = await store.open_session()
    epoch = await Registration(other, BROKER, clock, log, session_timeout_ms=1).register()
    data, stat = await session.get("/brokers/ids/4")
    assert (stat.czxid, stat.version, stat.ephemeral_owner) == (epoch, 1, other.session_id)
    assert znodes.decode_broker(BrokerId(4), data, epoch) == Broker(BROKER.broker_id, epoch, BROKER.endpoints)
    await other.close()
    assert await session.exists("/brokers/ids/4") is None


async def test_a_used_broker_id_is_refused_after_the_session_timeout(
    store: EmbeddedStore, session: EmbeddedSession, clock: Any, log: Any
) -> None:
    await Registration(session, BROKER, clock, log, session_timeout_ms=0).register()
    other = await store.open_session()
    with pytest.raises(DuplicateBrokerId, match=r"broker id 4 .* broker\.id"):
        await Registration(other, BROKER, clock, log, session_timeout_ms=0).register()


async def test_a_broker_waits_for_its_own_former_session_to_end(
    store: EmbeddedStore, session: EmbeddedSession, clock: Any, log: Any
) -> None:
    first = await Registration(session, BROKER, clock, log, session_timeout_ms=0).register()
    other = await store.open_session()
    second = asyncio.ensure_future(Registration(other, BROKER, clock, log, session_timeout_ms=60_000).register())
    await log.line("broker id is taken, waiting for its session to end")
    await session.expire()
    assert await second > first


async def test_the_former_node_is_checked_once_more_before_the_id_is_refused(
    store: EmbeddedStore, session: EmbeddedSession, clock: Any, log: Any
) -> None:
    await Registration(session, BROKER, clock, log, session_timeout_ms=0).register()
    other = await store.open_session()
    second = asyncio.ensure_future(Registration(other, BROKER, clock, log, session_timeout_ms=20).register())
    await log.line("broker id is taken, waiting for its session to end")
    other.lose_watches()  # As with a connection that broke and came back.
    await session.expire()
    assert await second > 0


async def test_a_broker_waits_half_a_session_timeout_longer_because_stores_end_sessions_late(
    store: EmbeddedStore, session: EmbeddedSession, clock: Any, log: Any
) -> None:
    await Registration(session, BROKER, clock, log, session_timeout_ms=0).register()
    other = await store.open_session()
    second = asyncio.ensure_future(Registration(other, BROKER, clock, log, session_timeout_ms=20).register())
    await log.line("broker id is taken, waiting for its session to end")
    clock.ms += 29
    await asyncio.wait([second], timeout=0.05)
    assert not second.done()
    clock.ms += 1
    with pytest.raises(DuplicateBrokerId):
        await second


async def test_the_epoch_is_known_with_the_registration_itself(
    session: EmbeddedSession, clock: Any, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The epoch must be known with the registration: the controller may send a command before any later read.
    reads: list[str] = []
    exists = session.exists

    async def counted(path: str, **watch: Any) -> Any:
        reads.append(path)
        return await exists(path, **watch)

    monkeypatch.setattr(session, "exists", counted)
    epoch = await Registration(session, BROKER, clock, log, session_timeout_ms=0).register()
    assert reads == ["/brokers/ids/4"], "one read before, none after"
    assert (await session.get("/brokers/ids/4"))[1].czxid == epoch


async def test_the_node_has_exactly_the_content_of_apache_kafkas(
    session: EmbeddedSession, clock: Any, log: Any
) -> None:
    me = Broker(BrokerId(4), 0, (*BROKER.endpoints, BrokerEndpoint("IN", "::1", 9093, "SASL_SSL")), "r1")
    await Registration(session, me, clock, log, session_timeout_ms=0).register()
    assert json.loads((await session.get("/brokers/ids/4"))[0]) == {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "IN": "SASL_SSL"},
        "endpoints": ["PLAINTEXT://h:9092", "IN://[::1]:9093"],
        "jmx_port": -1,
        "port": 9092,
        "host": "h",
        "version": 5,
        "timestamp": str(clock.ms),
        "rack": "r1",
    }


async def test_the_other_brokers_are_all_registered_ones_decodable_or_not(
    session: EmbeddedSession, clock: Any, log: Any
) -> None:
    await Registration(session, BROKER, clock, log, session_timeout_ms=0).register()
    await session.create("/brokers/ids/12", znodes.encode_broker(Broker(BrokerId(12), 0, BROKER.endpoints), 0))
    await session.create("/brokers/ids/3", b"no json")
    await session.create("/brokers/ids/observer", b"")
    others = await other_brokers(session, BrokerId(4))
    assert [(other.broker_id, len(other.endpoints)) for other in others] == [(3, 0), (12, 1)]


@pytest.mark.parametrize(
    ("listener", "host", "port", "taken"),
    [
        ("PLAINTEXT", "h", 9092, True),
        ("OTHER", "h", 9092, True),
        ("PLAINTEXT", "i", 9092, False),
        ("PLAINTEXT", "h", 9, False),
    ],
)
def test_an_address_of_another_broker_is_refused_whatever_its_listener_is_called(
    listener: str, host: str, port: int, taken: bool
) -> None:
    other = Broker(BrokerId(3), 7, (BrokerEndpoint("INTERNAL", "h", 1), BrokerEndpoint(listener, host, port)))
    if not taken:
        check_endpoints_free(BROKER, [other])
        return
    with pytest.raises(EndpointTaken, match=r"h:9092 is registered by broker 3: .* advertised\.listeners"):
        check_endpoints_free(BROKER, [other])


def test_an_address_by_rule_of_another_broker_is_refused() -> None:
    """Clients would reach one broker in place of the other."""
    rule = (BrokerEndpoint("HOST", "localhost", 9092),)
    mine, other = BROKER._replace(rule_endpoints=rule), Broker(BrokerId(3), 7, (), rule_endpoints=rule)
    with pytest.raises(EndpointTaken, match=r"localhost:9092 is registered by broker 3: .*listeners\.rules"):
        check_endpoints_free(mine, [other])
    check_endpoints_free(BROKER, [other])


async def test_registering_twice_in_one_session_is_one_registration(
    session: EmbeddedSession, clock: Any, log: Any
) -> None:
    registration = Registration(session, BROKER, clock, log, session_timeout_ms=0)
    assert await registration.register() == await registration.register()


async def test_base_paths_are_created_once(session: EmbeddedSession) -> None:
    await ensure_base_paths(session)
    for path in paths.BASE_PATHS:
        data, stat = await session.get(path)
        assert (data, stat.version) == (b"", 0)


async def test_the_cluster_keeps_the_id_that_was_generated_first(session: EmbeddedSession) -> None:
    first = await cluster_id(session, lambda count: bytes(range(count)))
    assert first == "AAECAwQFBgcICQoLDA0ODw"
    assert await cluster_id(session, bytes) == first
    await session.set(paths.CLUSTER_ID, b"{}")
    with pytest.raises(StoreUnusable, match="/cluster/id"):
        await cluster_id(session)


# Settings.


async def announce(session: EmbeddedSession, entity_path: str, config: dict[str, str]) -> None:
    await session.create(paths.config(entity_path), znodes.encode_config(config), make_parents=True)
    await session.create(paths.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity_path), sequential=True)


async def test_changes_are_processed_in_order_and_those_before_the_start_are_replayed(
    session: EmbeddedSession, clock: Any, log: Any
) -> None:
    notified: asyncio.Queue[tuple[str, dict[str, str]]] = asyncio.Queue()
    await announce(session, "topics/a", {"retention.ms": "1"})
    changes = ConfigChanges(session, lambda path, config: notified.put_nowait((path, dict(config))), clock, log)
    await changes.start()
    assert notified.get_nowait() == ("topics/a", {"retention.ms": "1"})
    await announce(session, "brokers/4", {"x": "y"})
    await session.create(paths.CONFIG_CHANGE_PREFIX, b"not json", sequential=True)
    await announce(session, "topics/b", {})
    assert [(await asyncio.wait_for(notified.get(), 20))[0] for _ in range(2)] == ["brokers/4", "topics/b"]
    assert "unreadable config change ignored" in log.events
    await changes.stop()


async def test_old_notifications_are_deleted_once_processed(session: EmbeddedSession, clock: Any, log: Any) -> None:
    await announce(session, "topics/a", {})
    clock.ms += NOTIFICATIONS_KEPT_MS + 1
    await announce(session, "topics/b", {})
    notified: list[str] = []
    changes = ConfigChanges(session, lambda path, _: notified.append(path), clock, log)
    await changes.start()
    await changes.stop()
    assert notified == ["topics/a", "topics/b"]
    assert await session.children(paths.CONFIG_CHANGES) == ["config_change_0000000001"]


async def test_changes_made_after_the_end_of_a_session_are_processed_in_the_next(
    store: EmbeddedStore, session: EmbeddedSession, clock: Any, log: Any
) -> None:
    notified: asyncio.Queue[tuple[str, dict[str, str]]] = asyncio.Queue()
    first = await store.open_session()
    current = CurrentSession(first)
    changes = ConfigChanges(current, lambda path, config: notified.put_nowait((path, dict(config))), clock, log)
    await changes.start()
    await first.expire()
    await announce(session, "topics/a", {"retention.ms": "1"})
    current.replace(await store.open_session())
    assert await asyncio.wait_for(notified.get(), 20) == ("topics/a", {"retention.ms": "1"})
    await announce(session, "topics/b", {})
    assert (await asyncio.wait_for(notified.get(), 20))[0] == "topics/b", (
        "the next session's notifications are watched, too"
    )
    await changes.stop()


async def test_a_session_that_ends_before_its_notifications_are_read_does_not_block_the_start(
    store: EmbeddedStore, session: EmbeddedSession, clock: Any, log: Any
) -> None:
    notified: asyncio.Queue[tuple[str, dict[str, str]]] = asyncio.Queue()
    first = await store.open_session()
    current = CurrentSession(first)
    changes = ConfigChanges(current, lambda path, config: notified.put_nowait((path, dict(config))), clock, log)
    await first.expire()
    await asyncio.wait_for(changes.start(), 20)
    await announce(session, "topics/a", {"retention.ms": "1"})
    current.replace(await store.open_session())
    assert await asyncio.wait_for(notified.get(), 20) == ("topics/a", {"retention.ms": "1"})
    await changes.stop()


async def test_an_entity_without_a_node_has_no_settings(session: EmbeddedSession) -> None:
    assert await read_config(session, "topics/none") == {}


# Producer ids.


async def test_producer_ids_are_unique_across_brokers_and_allocated_in_blocks(
    store: EmbeddedStore, session: EmbeddedSession
) -> None:
    one, two = (
        ProducerIdManager(StoreProducerIdBlocks(session, BrokerId(1)).take, asyncio.create_task, ListLog()),
        ProducerIdManager(
            StoreProducerIdBlocks(await store.open_session(), BrokerId(2)).take, asyncio.create_task, ListLog()
        ),
    )
    assert one.at_once() is None
    ids = await asyncio.gather(*(blocks.next() for _ in range(1500) for blocks in (one, two)))
    assert len(set(ids)) == 3000
    assert min(ids) == 0
    data, stat = await session.get(paths.PRODUCER_ID_BLOCK)
    assert stat.version == 4
    block = znodes.decode_producer_id_block(data)
    assert isinstance(block, znodes.ProducerIdBlock)
    assert block.end == 4000
    at_hand = one.at_once()
    assert at_hand is not None
    assert at_hand not in ids


async def test_a_damaged_producer_id_block_is_not_guessed(session: EmbeddedSession) -> None:
    await session.set(paths.PRODUCER_ID_BLOCK, b'{"version":1}')
    with pytest.raises(BrokerError, match="/latest_producer_id_block"):
        await ProducerIdManager(StoreProducerIdBlocks(session, BrokerId(1)).take, asyncio.create_task, ListLog()).next()


async def test_exhausted_producer_ids_are_refused(session: EmbeddedSession) -> None:
    last = znodes.ProducerIdBlock(BrokerId(1), 2**63 - 1500, 2**63 - 500)
    await session.set(paths.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(last))
    with pytest.raises(BrokerError, match="run out"):
        await ProducerIdManager(StoreProducerIdBlocks(session, BrokerId(1)).take, asyncio.create_task, ListLog()).next()
