"""No partition is fetched by two members at the same time, whatever happens to a member or to ZooKeeper.

Members are processes, which write down each fetch with its times on the machine's monotonic clock.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.cluster import OURS, Cluster
from tests.compat.groups.waiting import eventually
from tests.heritage.documented_site import DocumentedSite
from tests.heritage.member_process import Fetch, MemberProcess, overlaps
from tests.outside.java import ZooKeeperProcess
from tests.support.tcp_proxy import TcpProxy, hang_up

ROUNDS = 5 if os.environ.get("SORDINI_HERITAGE") == "all" else 1
PARTITIONS = range(4)
SESSION_MS = 1_500
SHARES = {"a": [0, 1], "b": [2, 3]}


class Group:
    """Two members of one group, a and b, on a topic of four partitions."""

    def __init__(self, site: DocumentedSite, directory: Path, connect_of_a: str = "") -> None:
        self.site = site
        self.topic = site.topic([1, 2, 1, 2])
        self.sent: list[str] = []
        self._batches = itertools.count()
        self.a, self.b = (
            MemberProcess(directory, name, self.topic, self._properties(name, connect))
            for name, connect in (("a", connect_of_a), ("b", ""))
        )

    def _properties(self, name: str, connect: str) -> dict[str, object]:
        return {
            "group.id": self.site.group,
            "consumer.id": name,
            "zookeeper.connect": connect or self.site.tree.connect,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 100,
            "rebalance.backoff.ms": 100,
            "rebalance.max.retries": 1_000,
            "fetch.wait.max.ms": 50,
        }

    def shares(self) -> dict[str, list[int]]:
        """What each member owns by the nodes of owners."""
        owners = self.site.nodes(f"owners/{self.topic}")
        found: dict[str, list[int]] = {}
        for number, owner in owners.items():
            found.setdefault((owner or "-").rpartition("-")[0].removeprefix(f"{self.site.group}_"), []).append(
                int(number)
            )
        return found

    def wait_for(self, shares: dict[str, list[int]]) -> None:
        eventually(lambda: self.shares() == shares, f"the shares are {shares}", 60)

    def send(self) -> list[str]:
        """Ten messages to each partition."""
        sent = self.site.send(self.topic, [*PARTITIONS] * 10, f" of batch {next(self._batches)}")
        self.sent += sent
        return sent

    def wait_until_consumed(self, messages: list[str], *members: MemberProcess) -> None:
        wanted = set(messages)
        eventually(lambda: wanted <= {one for member in members for one in member.messages()}, "all is consumed", 60)

    def check(self) -> None:
        """Nothing is lost, and no partition was fetched twice at a time."""
        self.wait_until_consumed(self.sent, self.a, self.b)
        assert overlaps([self.a, self.b], PARTITIONS) == []
        for member in (self.a, self.b):
            assert member.stop() == 0, member.tail()

    def fetchers(self, partition: int) -> list[str]:
        """Which members fetched a partition, one after the other."""
        fetches = sorted([*self.a.fetches(partition), *self.b.fetches(partition)])
        return [name for name, _ in itertools.groupby(fetches, lambda one: one.member)]


@pytest.fixture
def start(site: DocumentedSite, tmp_path: Path) -> Iterator[Callable[..., Group]]:
    """`start()`: two members that have their shares."""
    groups: list[Group] = []

    def started(connect_of_a: str = "") -> Group:
        group = Group(site, tmp_path, connect_of_a)
        groups.append(group)
        for member in (group.a, group.b):
            member.launch()
        group.wait_for(SHARES)
        group.wait_until_consumed(group.send(), group.a, group.b)
        return group

    yield started
    for group in groups:
        group.a.kill()
        group.b.kill()


def test_a_member_that_is_stopped_in_the_middle_of_a_fetch_and_goes_on_later(start: Callable[..., Group]) -> None:
    group = start()
    for _ in range(ROUNDS):
        with group.a.hung():
            group.wait_for({"b": [0, 1, 2, 3]})
            group.wait_until_consumed(group.send(), group.b)
        group.wait_for(SHARES)
        group.wait_until_consumed(group.send(), group.a, group.b)
    assert group.fetchers(0)[-3:] == ["a", "b", "a"], "it was fetched by both, one after the other"
    group.check()


class Wire(TcpProxy):
    """A wire to ZooKeeper that can be cut: nothing arrives any more, and neither side learns of it."""

    def __init__(self, connect: str) -> None:
        self._whole = threading.Event()
        self._whole.set()
        self._ends: list[socket.socket] = []
        super().__init__(self._carry)
        address, slash, chroot = connect.partition("/")
        self.behind = int(address.rpartition(":")[2])
        self.connect = f"{self.bootstrap}{slash}{chroot}"

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        """What was on its way is lost, as are the connections."""
        for end in self._ends:
            hang_up(end)
        self._ends.clear()
        self._whole.set()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        self._ends += [client, server]
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=[source, target], daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                self._whole.wait()
                target.sendall(data)
        except OSError:
            pass
        hang_up(source)
        hang_up(target)


def test_a_member_that_loses_zookeeper_stops_before_another_begins(
    start: Callable[..., Group], site: DocumentedSite
) -> None:
    wire = Wire(site.tree.connect)
    group = start(wire.connect)
    for _ in range(ROUNDS):
        wire.cut()
        group.wait_for({"b": [0, 1, 2, 3]})
        group.wait_until_consumed(group.send(), group.b)
        wire.mend()
        group.wait_for(SHARES)
        group.wait_until_consumed(group.send(), group.a, group.b)
    assert group.fetchers(0)[-3:] == ["a", "b", "a"]
    group.check()
    wire.close()


@pytest.mark.long
@pytest.mark.parametrize("is_killed", [False, True])
def test_while_zookeeper_is_away_no_member_fetches_for_longer_than_its_session(
    tmp_path: Path, *, is_killed: bool
) -> None:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperProcess(tmp_path / "zookeeper"))
        cluster = Cluster(tmp_path / "cluster", zookeeper.connect, "2.7")
        stack.callback(cluster.close)
        cluster.start({1: OURS, 2: OURS}, {"offsets.topic.replication.factor": 1})
        site = stack.enter_context(DocumentedSite(cluster, "zookeeper-away"))
        group = Group(site, tmp_path)
        for member in (group.a, group.b):
            member.launch()
            stack.callback(member.kill)
        group.wait_for(SHARES)
        group.wait_until_consumed(group.send(), group.a, group.b)
        if is_killed:
            zookeeper.kill()
            seconds_of_silence(group)
            zookeeper.start()
        else:
            with zookeeper.hung():
                seconds_of_silence(group)
        eventually(lambda: group.shares() == SHARES, "both have their shares again", 60)
        group.wait_until_consumed(group.send(), group.a, group.b)
        group.check()


def seconds_of_silence(group: Group) -> None:
    """Wait until neither member has begun a fetch for two session timeouts."""

    def is_silent() -> bool:
        fetches = [one for member in (group.a, group.b) for number in PARTITIONS for one in member.fetches(number)]
        return time.monotonic() - max(one.began_s for one in fetches) > 2 * SESSION_MS / 1_000

    eventually(is_silent, "the members are silent", 30)


def test_the_judge_finds_fetches_at_the_same_time(tmp_path: Path) -> None:
    members = [MemberProcess(tmp_path, name, "t", {}) for name in ("a", "b")]
    lines = {"a": [(0, 1, 2), (0, 2, 3), (1, 1, 9)], "b": [(0, 3, 4), (0, 5, 6), (1, 4, 5)]}
    for member in members:
        text = "".join(
            f'{{"fetched": {number}, "began_s": {began}, "ended_s": {ended}, "is_accepted": true}}\n'
            for number, began, ended in lines[member.name]
        )
        (tmp_path / f"{member.name}.history").write_text(text)
    assert overlaps(members, [0]) == []
    assert overlaps(members, [1]) == [(1, Fetch(1, 9, "a"), Fetch(4, 5, "b"))]
