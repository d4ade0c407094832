"""Which broker of which cluster this is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sordini.broker.cluster.identity import find_identity
from sordini.broker.configuration.config import Config, build_config
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.ports import Session
from sordini.storage.checkpoints import write_meta
from sordini.storage.errors import WrongDirectory
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.fake_ports import StillClock
from tests.support.unit_broker import CLUSTER_ID, inline


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    session = await store.open_session()
    await ensure_base_paths(session)
    yield session
    await store.close()


def configured(**entries: str) -> Config:
    return build_config({"log.dirs": "/a,/b", **{key.replace("_", "."): text for key, text in entries.items()}})[0]


def disk_of(**broker_ids: int) -> ForgetfulDisk:
    """A disk whose log directories were written by these brokers."""
    disk = ForgetfulDisk()
    for name, broker_id in broker_ids.items():
        disk.make_directory(f"/{name}")
        write_meta(disk, f"/{name}", broker_id, CLUSTER_ID, {})
    return disk


async def test_a_configured_id_is_taken(session: Session) -> None:
    found = await find_identity(configured(broker_id="7"), ForgetfulDisk(), session)
    assert found.broker_id == 7


async def test_a_configured_id_goes_before_what_the_directories_say(session: Session) -> None:
    # The log manager checks whether the directories are another broker's.
    found = await find_identity(configured(broker_id="7"), disk_of(a=3), session)
    assert found.broker_id == 7


@pytest.mark.parametrize("written", [{"a": 1003}, {"b": 1003}, {"a": 1003, "b": 1003}])
async def test_without_one_the_directories_know(session: Session, written: dict[str, int]) -> None:
    found = await find_identity(configured(), disk_of(**written), session)
    assert found.broker_id == 1003
    assert (await session.get("/brokers/seqid"))[1].version == 0, "no number was drawn"


async def test_fresh_ids_begin_above_the_reserved_ones_and_are_never_given_twice(session: Session) -> None:
    given = [(await find_identity(configured(), ForgetfulDisk(), session)).broker_id for _ in range(3)]
    assert given == [1001, 1002, 1003]
    other = await find_identity(configured(reserved_broker_max_id="10"), ForgetfulDisk(), session)
    assert other.broker_id == 14


async def test_the_clusters_id_is_drawn_once(session: Session) -> None:
    ids = {(await find_identity(configured(broker_id="1"), ForgetfulDisk(), session)).cluster_id for _ in range(3)}
    (cluster_id,) = ids
    assert len(cluster_id) == 22


async def test_a_directory_whose_owner_cannot_be_read_stops_the_start(session: Session) -> None:
    disk = ForgetfulDisk()
    disk.replace("/a/meta.properties", b"version=0\nbroker.id=seven\n")
    with pytest.raises(WrongDirectory, match=r"meta\.properties"):
        await find_identity(configured(), disk, session)


async def test_a_directory_that_names_no_broker_leaves_the_question_open(session: Session) -> None:
    disk = disk_of(b=5)
    disk.replace("/a/meta.properties", b"version=0\n")
    assert (await find_identity(configured(), disk, session)).broker_id == 5
