"""Malformed or unreachable registrations while ours is the controller (experiment A11).

Among brokers of Apache Kafka one such node ends all failure detection, and with the next election begins a storm of
hundreds of controller epochs a second. Here only the broker with that registration is left out.
"""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.registrations import REGISTRATIONS, a_registration, registered


def depose(cluster: Cluster) -> None:
    """Have another controller elected, and wait until it grants something: an epoch later, and no more."""
    epoch = cluster.tree.controller_epoch()
    heir = {1: 2, 2: 1}[cluster.tree.controller()]
    cluster.move_controller(heir)
    cluster.create(f"granted-{epoch}", [[1, 2, 3]])
    assert (cluster.tree.controller(), cluster.tree.controller_epoch()) == (heir, epoch + 1)


FIRST, *OTHERS = REGISTRATIONS.values()


@pytest.mark.parametrize(
    "data", [FIRST, *(pytest.param(other, marks=pytest.mark.slow) for other in OTHERS)], ids=list(REGISTRATIONS)
)
def test_a_controller_stays_active_and_another_is_elected_beside_malformed_registrations(
    quick_to_forget: Cluster, data: bytes
) -> None:
    cluster = quick_to_forget
    epoch = cluster.tree.controller_epoch()
    with registered(cluster, {"9": data}):
        cluster.create(f"beside-{epoch}", [[1, 2, 3]])
        assert (cluster.tree.controller(), cluster.tree.controller_epoch()) == (1, epoch)
        depose(cluster)
        cluster.tree.put("/brokers/ids/9", a_registration(endpoints=["PLAINTEXT://127.0.0.1:2"]))
        cluster.create(f"mended-{epoch}", [[2, 1, 3]])
    cluster.create(f"gone-{epoch}", [[3, 1, 2]])
    assert cluster.tree.controller_epoch() == epoch + 1
