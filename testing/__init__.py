"""The test kit: a real cluster inside a test, with faults on demand and time that can be moved.

    def test_orders_are_retried(kafka):                       # the fixture comes with the package
        orders = kafka.topic()
        with kafka.on("Produce", topic=orders, times=2).fail("NOT_ENOUGH_REPLICAS"):
            place_order(kafka.bootstrap_servers, orders)
        kafka.assert_produced(orders, ["one order"])

docs/testing.md takes a newcomer from the installation to such a test.
"""

from sordini.testing.brokers.site import SiteFailed
from sordini.testing.faults.seen import SeenRequest
from sordini.testing.kafka import Kafka, make_kafka
from sordini.testing.own_client import KitError
from sordini.testing.records import KitRecord

__all__ = ["Kafka", "KitError", "KitRecord", "SeenRequest", "SiteFailed", "make_kafka"]
