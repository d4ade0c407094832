"""The secret of made-up credentials: one for all brokers, whichever is first, and readable only as credentials are."""

from __future__ import annotations

import asyncio

import pytest

from sordini.broker.security.sasl.cluster_secret import SECRET_BYTES, shared_secret
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.store_format import ensure_format
from sordini.replication.ports import NoNode
from tests.contract.conftest import Store
from tests.support.fake_ports import ListLog

OWN = [bytes([number]) * SECRET_BYTES for number in range(4)]


async def test_brokers_that_start_together_and_those_that_start_later_have_one_secret(store: Store) -> None:
    sessions = [await store.open_session() for _ in OWN]
    await ensure_format(sessions[0])
    log = ListLog()
    pairs = list(zip(sessions, OWN, strict=True))
    first = await asyncio.gather(*(shared_secret(session, own, log) for session, own in pairs[:3]))
    assert len(set(first)) == 1
    assert first[0] in OWN[:3]
    assert await shared_secret(*pairs[3], log) == first[0]
    assert log.lines == []


async def test_a_secret_that_was_lost_with_its_store_is_written_again_by_a_running_broker(store: Store) -> None:
    session, log = await store.open_session(), ListLog()
    await ensure_format(session)
    kept = await shared_secret(session, OWN[0], log)
    await session.delete(paths.UNKNOWN_USERS)
    assert await shared_secret(session, kept, log) == OWN[0]
    assert await shared_secret(session, OWN[1], log) == OWN[0]


async def test_a_tree_without_the_node_above_is_left_as_it_is(store: Store) -> None:
    session, log = await store.open_session(), ListLog()
    assert await shared_secret(session, OWN[0], log) == OWN[0]
    with pytest.raises(NoNode):
        await session.get(paths.SORDINI)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"secret":7}', b'{"secret":"*"}', b'{"secret":""}', b"\xff"])
async def test_a_node_without_a_secret_is_logged_and_left(store: Store, data: bytes) -> None:
    session, log = await store.open_session(), ListLog()
    await ensure_format(session)
    await session.create(paths.UNKNOWN_USERS, data)
    assert await shared_secret(session, OWN[0], log) == OWN[0]
    assert (await session.get(paths.UNKNOWN_USERS))[0] == data
    [(level, event, fields)] = log.lines
    assert (level, fields["path"]) == ("error", "/sordini/unknown_users")
    assert "unreadable secret" in event
