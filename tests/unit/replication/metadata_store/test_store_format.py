"""The node with the format of a cluster's tree."""

from __future__ import annotations

import json

import pytest

from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.replication.metadata_store.store_format import FORMAT, ensure_format
from sordini.replication.ports import StoreUnusable


async def test_the_first_broker_writes_the_format_and_the_next_ones_read_it(session: EmbeddedSession) -> None:
    await ensure_format(session)
    data, stat = await session.get("/sordini")
    assert json.loads(data) == {"version": 1, "format": FORMAT}
    assert not stat.ephemeral_owner
    await ensure_format(session)
    assert (await session.get("/sordini"))[1].version == 0


async def test_a_newer_format_is_refused_by_its_number(session: EmbeddedSession) -> None:
    await session.create("/sordini", json.dumps({"version": 1, "format": FORMAT + 1}).encode())
    with pytest.raises(StoreUnusable, match=rf"has format {FORMAT + 1} \(/sordini\).*up to {FORMAT}: start the newer"):
        await ensure_format(session)


async def test_unknown_keys_and_versions_are_ignored(session: EmbeddedSession) -> None:
    await session.create("/sordini", json.dumps({"since": "2.0", "format": FORMAT, "version": 9}).encode())
    await ensure_format(session)


@pytest.mark.parametrize(
    "data", [b"", b"no json", b"[]", b"7", b"{}", b'{"format":"1"}', b'{"format":true}', b'{"format":0}', b"\xff"]
)
async def test_a_node_without_a_format_is_refused_with_what_to_write(session: EmbeddedSession, data: bytes) -> None:
    await session.create("/sordini", data)
    with pytest.raises(StoreUnusable, match=r'/sordini does not contain the format.*\{"version":1,"format":1\}'):
        await ensure_format(session)
