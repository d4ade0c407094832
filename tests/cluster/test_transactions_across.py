"""Transactions in clusters of both kinds: coordinators and leaders of either, and the other kind takes over in the middle.

Two kinds of brokers share the records of `__transaction_state`, the markers between brokers and the transactions in the
logs. Here a broker is killed (-9) at each point that can be forced from outside, and the other kind completes
what it finds: all or nothing for read_committed readers, nothing that was acknowledged is lost, nothing hangs. The
replicas are compared to the byte when the module's cluster ends (`aftermath`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import EVERYTHING, PROTOCOLS
from tests.cluster.coordinated import FIFTH, OWN, REPLICAS, THEIRS, THIRD, WITNESS, Coordinated, fill, restore
from tests.outside.versions import OLDER_APACHE_KAFKA

KINDS = {"theirs": THEIRS, "ours": OWN}
RULERS = {"under-ours": WITNESS} | ({"under-theirs": THIRD} if EVERYTHING else {})
SHORT_MS = 10_000
"""The timeout of a transaction that its coordinator shall abort."""
ENDS = [True, pytest.param(False, marks=pytest.mark.slow)]
takes_long = pytest.mark.skipif(not EVERYTHING, reason="a session of ZooKeeper expires")


@pytest.fixture(params=RULERS.values(), ids=RULERS)
def both_kinds(request: pytest.FixtureRequest, lend: Callable[..., Cluster], version: str) -> Iterator[Cluster]:
    """All brokers of a cluster with coordinators of both kinds, under a controller that stays."""
    cluster: Cluster = lend(PROTOCOLS[version], lambda made: fill(made, version, is_long=EVERYTHING))
    cluster.move_controller(request.param)
    yield cluster
    restore(cluster)


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def across(request: pytest.FixtureRequest, both_kinds: Cluster) -> Coordinated:
    """A transactional id of a coordinator of each kind, and a topic with leaders of both."""
    return Coordinated.by(both_kinds, request.param, REPLICAS)


def kill_coordinator(across: Coordinated) -> None:
    """The other kind takes over."""
    across.cluster.kill(across.broker)
    across.wait_for_coordinator(across.successor)


def test_transactions_are_all_or_nothing_with_coordinators_and_leaders_of_both_kinds(across: Coordinated) -> None:
    client = across.client()
    for number, end in enumerate((client.commit, client.abort, client.commit, client.abort)):
        client.begin()
        for partition in range(2):
            client.write(across.topic, partition, b"%d" % number)
        client.send_offset(across.group, across.topic, number)
        end()
    across.assert_settled([[b"0", b"2"]] * 2, 2)
    client.close()


@takes_long
@pytest.mark.parametrize("is_committed", ENDS, ids=["commit", "abort"])
def test_an_open_transaction_ends_as_its_client_says_when_the_other_kind_took_over(
    across: Coordinated, *, is_committed: bool
) -> None:
    client = across.client()
    client.begin()
    for partition in range(2):
        client.write(across.topic, partition, b"before")
    client.send_offset(across.group, across.topic, 7)
    kill_coordinator(across)
    for partition in range(2):
        client.write(across.topic, partition, b"after")
    (client.commit if is_committed else client.abort)()
    across.assert_settled([[b"before", b"after"] * is_committed] * 2, 7 if is_committed else -1)
    client.begin()
    client.write(across.topic, 0, b"next")
    client.commit()
    client.close()
    restore(across.cluster)
    across.assert_settled(
        [[b"before", b"after"] * is_committed + [b"next"], [b"before", b"after"] * is_committed],
        7 if is_committed else -1,
    )


@takes_long
@pytest.mark.parametrize("is_committed", ENDS, ids=["commit", "abort"])
def test_a_coordinator_completes_what_one_of_the_other_kind_has_decided(
    both_kinds: Cluster, kind: int, *, is_committed: bool
) -> None:
    """The decision is answered and in the log; the marker of one partition cannot be written, as its leader is frozen."""
    leader = THIRD if both_kinds.tree.controller() == WITNESS else FIFTH
    across = Coordinated.by(both_kinds, kind, [[leader], [leader]])
    client = across.client()
    client.begin()
    for partition in range(2):
        client.write(across.topic, partition, b"decided")
    client.send_offset(across.group, across.topic, 7)
    with both_kinds.brokers[leader].hung():
        (client.commit if is_committed else client.abort)()
        if PROTOCOLS[OLDER_APACHE_KAFKA] != both_kinds.protocol or kind == OWN:
            assert across.state() == ("PrepareCommit" if is_committed else "PrepareAbort")
        both_kinds.kill(across.broker)
    across.wait_for_coordinator(across.successor)
    across.assert_settled([[b"decided"] * is_committed] * 2, 7 if is_committed else -1)
    client.close()


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> int:
    """The coordinator that is killed."""
    wanted: int = request.param
    return wanted


@takes_long
@pytest.mark.parametrize("is_committed", ENDS, ids=["commit", "abort"])
def test_a_transaction_goes_on_when_a_leader_of_the_other_kind_took_its_partition_over(
    across: Coordinated, *, is_committed: bool
) -> None:
    """The leader that is killed is the kind that does not coordinate the transaction."""
    client = across.client()
    client.begin()
    for partition in range(2):
        client.write(across.topic, partition, b"before")
    across.cluster.kill(across.successor)
    for partition in range(2):
        client.write(across.topic, partition, b"after")
    (client.commit if is_committed else client.abort)()
    client.close()
    across.assert_settled([[b"before", b"after"] * is_committed] * 2, -1)
    restore(across.cluster)
    across.assert_settled([[b"before", b"after"] * is_committed] * 2, -1)


@takes_long
def test_a_transaction_without_its_client_is_aborted_by_the_other_kind_when_its_timeout_has_passed(
    across: Coordinated,
) -> None:
    client = across.client(SHORT_MS)
    client.begin()
    for partition in range(2):
        client.write(across.topic, partition, b"left open")
    client.send_offset(across.group, across.topic, 7)
    client.close()
    kill_coordinator(across)
    across.assert_settled([[], []], -1)
