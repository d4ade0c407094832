"""The test kit: a real cluster inside a test, with faults on demand and time that can be moved.

    def test_orders_are_retried(kafka):                       # the fixture comes with the package
        orders = kafka.topic()
        with kafka.on("Produce", topic=orders, times=2).fail("NOT_ENOUGH_REPLICAS"):
            place_order(kafka.bootstrap_servers, orders)
        kafka.assert_produced(orders, ["one order"])

docs/testing.md takes a newcomer from the installation to such a test.

May import `broker` and all below it. The brokers are whole ones: nothing here changes what they do, but for the
faults of a rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordini.packs.pack_format import PackError
    from sordini.packs.packed_records import KitRecord
    from sordini.testing.brokers.site import SiteFailed
    from sordini.testing.faults.seen import SeenRequest
    from sordini.testing.group_state import GroupMember, GroupState
    from sordini.testing.kafka import Kafka
    from sordini.testing.making import make_kafka
    from sordini.testing.own_client import KitError
    from sordini.testing.packs.reading import read_pack
    from sordini.testing.security import Sasl
    from sordini.testing.share_group_state import InFlightRecord, ShareGroupState
    from sordini.testing.simulation.scenario import Scenario
    from sordini.testing.simulation.schedule import Fault, FaultKind
    from sordini.testing.simulation.search import search
    from sordini.testing.simulation.simulate import SimulationFailed, simulate

__all__ = [
    "Fault",
    "FaultKind",
    "GroupMember",
    "GroupState",
    "InFlightRecord",
    "Kafka",
    "KitError",
    "KitRecord",
    "PackError",
    "Sasl",
    "Scenario",
    "SeenRequest",
    "ShareGroupState",
    "SimulationFailed",
    "SiteFailed",
    "make_kafka",
    "read_pack",
    "search",
    "simulate",
]

_WHERE = {
    "Fault": "testing.simulation.schedule",
    "FaultKind": "testing.simulation.schedule",
    "Scenario": "testing.simulation.scenario",
    "SimulationFailed": "testing.simulation.simulate",
    "search": "testing.simulation.search",
    "simulate": "testing.simulation.simulate",
    "GroupMember": "testing.group_state",
    "GroupState": "testing.group_state",
    "InFlightRecord": "testing.share_group_state",
    "Kafka": "testing.kafka",
    "KitError": "testing.own_client",
    "KitRecord": "packs.packed_records",
    "PackError": "packs.pack_format",
    "Sasl": "testing.security",
    "SeenRequest": "testing.faults.seen",
    "ShareGroupState": "testing.share_group_state",
    "SiteFailed": "testing.brokers.site",
    "make_kafka": "testing.making",
    "read_pack": "testing.packs.reading",
}
"""The module of each public name, below `sordini`."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is used first: every pytest session imports this package for its plugin."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"sordini.{_WHERE[name]}"), name)
