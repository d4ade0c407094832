"""The test kit: a real cluster inside a test, with faults on demand and time that can be moved.

    def test_orders_are_retried(kafka):                       # the fixture comes with the package
        orders = kafka.topic()
        with kafka.on("Produce", topic=orders, times=2).fail("NOT_ENOUGH_REPLICAS"):
            place_order(kafka.bootstrap_servers, orders)
        kafka.assert_produced(orders, ["one order"])

docs/testing.md takes a newcomer from the installation to such a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordini.testing.brokers.site import SiteFailed
    from sordini.testing.faults.seen import SeenRequest
    from sordini.testing.kafka import Kafka
    from sordini.testing.making import make_kafka
    from sordini.testing.own_client import KitError
    from sordini.testing.packs.pack_format import PackError
    from sordini.testing.packs.pack_reader import read_pack
    from sordini.testing.records import KitRecord
    from sordini.testing.security import Sasl
    from sordini.testing.simulation.scenario import Scenario
    from sordini.testing.simulation.schedule import Fault, FaultKind
    from sordini.testing.simulation.search import search
    from sordini.testing.simulation.simulate import SimulationFailed, simulate

__all__ = [
    "Fault",
    "FaultKind",
    "Kafka",
    "KitError",
    "KitRecord",
    "PackError",
    "Sasl",
    "Scenario",
    "SeenRequest",
    "SimulationFailed",
    "SiteFailed",
    "make_kafka",
    "read_pack",
    "search",
    "simulate",
]

_WHERE = {
    "Fault": "simulation.schedule",
    "FaultKind": "simulation.schedule",
    "Scenario": "simulation.scenario",
    "SimulationFailed": "simulation.simulate",
    "search": "simulation.search",
    "simulate": "simulation.simulate",
    "Kafka": "kafka",
    "KitError": "own_client",
    "KitRecord": "records",
    "PackError": "packs.pack_format",
    "Sasl": "security",
    "SeenRequest": "faults.seen",
    "SiteFailed": "brokers.site",
    "make_kafka": "making",
    "read_pack": "packs.pack_reader",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is used first: every pytest session imports this package for its plugin."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
