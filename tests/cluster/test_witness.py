"""The lending of clusters, and the reader of ZooKeeper's log: each finds what is planted for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from tests.cluster.cluster import Cluster
from tests.cluster.lent_clusters import Lender
from tests.cluster.tree import Tree
from tests.cluster.witness import GUARD, Witness
from tests.outside.java import ZooKeeperProcess

TOPIC = "/brokers/topics/t"
STATE = b'{"leader":1,"leader_epoch":3,"isr":[1,2]}'


@pytest.fixture
def tree(zookeeper: str) -> Iterator[Tree]:
    made = Tree(f"{zookeeper}/{uuid4().hex}")
    made.put(f"{TOPIC}/partitions/0", b"")
    made.put(GUARD, b"1")
    yield made
    made.close()


@pytest.fixture
def client(tree: Tree) -> Iterator[KazooClient]:
    """Who writes."""
    made = KazooClient(hosts=tree.connect)
    made.start(timeout=20)
    yield made
    made.stop()
    made.close()


@pytest.fixture
def witness(zookeeper_process: ZooKeeperProcess, tree: Tree) -> Witness:
    return Witness(zookeeper_process.directory / "data", tree)


def guarded(client: KazooClient, *paths: str, version: int = 0) -> None:
    transaction = client.transaction()
    transaction.check(GUARD, version)
    for path in paths:
        transaction.create(path, STATE)
    transaction.commit()


def test_writes_are_listed_in_order_with_their_guards_and_values(
    tree: Tree, client: KazooClient, witness: Witness
) -> None:
    guarded(client, f"{TOPIC}/partitions/0/state")
    guarded(client, f"{TOPIC}/partitions/0/refused", version=7)
    client.set(TOPIC, b"")
    client.delete(f"{TOPIC}/partitions/0/state")
    tree.put("/brokers/topics/t-other", b"")
    assert list(map(str, witness.writes("t"))) == [
        f"guarded create {TOPIC}/partitions/0/state",
        f"set {TOPIC}",
        f"delete {TOPIC}/partitions/0/state",
    ]
    assert witness.states("t", 0) == [(1, 3, {1, 2})]
    witness.forget()
    assert witness.writes("t") == []


def test_a_state_without_a_guard_is_listed(tree: Tree, witness: Witness) -> None:
    tree.put(f"{TOPIC}/partitions/0/state", STATE)
    with pytest.raises(AssertionError, match="create /brokers/topics/t/partitions/0/state"):
        witness.states("t", 0)


def test_several_changes_under_one_guard_are_listed(client: KazooClient, witness: Witness) -> None:
    guarded(client, f"{TOPIC}/partitions/1", f"{TOPIC}/partitions/1/state")
    with pytest.raises(AssertionError, match="several changes at once"):
        witness.writes("t")


def test_another_cluster_is_lent_only_for_another_protocol_or_instead_of_a_broken_one(
    zookeeper: str, tmp_path: Path
) -> None:
    filled: list[Cluster] = []
    lender = Lender(zookeeper, lambda: tmp_path / uuid4().hex)
    first = lender.lend("2.7", filled.append)
    assert lender.lend("2.7", filled.append) is first
    second = lender.lend("3.9", filled.append)
    lender.discard()
    third = lender.lend("3.9", filled.append)
    assert filled == [first, second, third]
    lender.judge()
    lender.close()


def test_a_cluster_that_did_not_stand_up_is_not_lent_again(zookeeper: str, tmp_path: Path) -> None:
    lender = Lender(zookeeper, lambda: tmp_path / uuid4().hex)

    def fail(_: Cluster) -> None:
        raise AssertionError("it does not start")

    filled: list[Cluster] = []
    with pytest.raises(AssertionError, match="it does not start"):
        lender.lend("2.7", fail)
    lender.lend("2.7", filled.append)
    assert len(filled) == 1
    lender.close()
