"""A start on log directories whose cluster's tree is not there is refused; logs that no topic claims are named."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sordini.broker.cluster.identity import Owner, owner_of
from sordini.broker.configuration.config import build_config
from sordini.broker.wiring.startup import StartRefused, refuse_lost_file, refuse_other_tree, warn_of_unknown_topics
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store import paths, znodes
from sordini.storage.log_config import LogConfig
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.fake_ports import ListLog, StillClock
from tests.support.partitions import TOPIC_ID, logs_on
from tests.support.unit_broker import CLUSTER_ID, inline
from tests.unit.broker.cluster.test_identity import disk_of

OWNER = Owner(CLUSTER_ID, "/b")


@pytest.fixture
async def session() -> AsyncIterator[EmbeddedSession]:
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    yield await store.open_session()
    await store.close()


def test_the_first_directory_that_names_a_cluster_says_whose_all_are() -> None:
    assert owner_of(disk_of(b=1), ["/a", "/b"]) == OWNER
    assert owner_of(ForgetfulDisk(), ["/a", "/b"]) is None


def test_a_directory_that_names_no_cluster_or_cannot_be_read_claims_nothing() -> None:
    disk = disk_of(b=1)
    disk.make_directory("/a")
    disk.replace("/a/meta.properties", b"version=0\nbroker.id=1\n")
    assert owner_of(disk, ["/a"]) is None
    disk.replace("/a/meta.properties", b"version=0\nbroker.id=seven\n")
    assert owner_of(disk, ["/a", "/b"]) == OWNER


async def test_a_start_in_the_tree_of_its_cluster_or_with_new_directories_goes_on(session: EmbeddedSession) -> None:
    config, _ = build_config({})
    await refuse_other_tree(config, None, session)
    await session.create(paths.CLUSTER_ID, znodes.encode_cluster_id(CLUSTER_ID), make_parents=True)
    await refuse_other_tree(config, OWNER, session)


async def test_the_refusal_names_the_directory_both_clusters_and_what_to_do(session: EmbeddedSession) -> None:
    on_zookeeper, _ = build_config({"zookeeper.connect": "zk-1:2181/kafka"})
    with pytest.raises(StartRefused) as refusal:
        await refuse_other_tree(on_zookeeper, OWNER, session)
    assert str(refusal.value) == (
        f"/b/meta.properties belongs to cluster {CLUSTER_ID}, and zookeeper.connect=zk-1:2181/kafka is not its tree: it "
        "holds no cluster, /cluster/id is not there. Wrong chroot, or restore ZooKeeper (docs/recovery.md); nothing was "
        "written there. To begin a new cluster there, name other log.dirs"
    )
    await session.create(paths.CLUSTER_ID, znodes.encode_cluster_id("lkjihgfedcba9876543210"), make_parents=True)
    embedded, _ = build_config({})
    with pytest.raises(StartRefused, match=r"it holds cluster lkji\w+\. Restore coordination.sqlite"):
        await refuse_other_tree(embedded, OWNER, session)


def test_a_lost_file_of_the_embedded_store_is_missed_only_where_a_cluster_was() -> None:
    disk = disk_of(b=1)
    with pytest.raises(StartRefused, match=rf"/b/meta.properties .* {CLUSTER_ID}, .* /a/c.sqlite is not there"):
        refuse_lost_file(disk, "/a/c.sqlite", ["/a", "/b"])
    assert not disk.exists("/a/c.sqlite")
    refuse_lost_file(disk, "/a/c.sqlite", ["/a"])
    disk.replace("/b/c.sqlite", b"")
    refuse_lost_file(disk, "/b/c.sqlite", ["/b"])


async def test_logs_of_topics_that_the_tree_lacks_are_named_in_one_line_and_kept(session: EmbeddedSession) -> None:
    logs, log = logs_on(ForgetfulDisk(), "/logs"), ListLog()
    for topic, partitions in (("orders", 1), ("new", 12)):
        for partition in range(partitions):
            logs.create(TopicPartition(topic, partition), TOPIC_ID, LogConfig())
    await session.create(paths.topic("orders"), b"", make_parents=True)
    await warn_of_unknown_topics(logs, session, log)
    ((event, fields),) = log.at("warning")
    assert event.startswith("logs of unknown topics are kept")
    assert fields["topics"] == 1
    assert str(fields["directories"]).startswith("/logs/new-0, /logs/new-1, /logs/new-10")
    assert str(fields["directories"]).endswith(" and 2 more")
    assert len(logs.logs()) == 13
    await session.create(paths.topic("new"), b"")
    await warn_of_unknown_topics(logs, session, log)
    assert len(log.at("warning")) == 1
