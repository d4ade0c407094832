"""One store for several brokers of a process."""

from __future__ import annotations

import pytest

from sordini.coordination_store.embedded import EmbeddedStore, StoreLease
from sordini.replication.ports import SessionExpired, SessionState
from tests.support.fake_ports import StillClock
from tests.support.unit_broker import inline


async def test_the_end_of_a_lease_ends_only_its_own_sessions() -> None:
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    one, other = StoreLease(store), StoreLease(store)
    first, second, third = await one.open_session(), await one.open_session(), await other.open_session()
    for number, session in enumerate((first, second, third)):
        await session.create(f"/{number}", ephemeral=True)
    await one.close()
    assert (first.state, second.state, third.state) == (
        SessionState.CLOSED,
        SessionState.CLOSED,
        SessionState.CONNECTED,
    )
    assert await third.children("/") == ["2"]
    with pytest.raises(SessionExpired):
        await first.children("/")
    await one.close()
    await other.close()
    await store.close()
