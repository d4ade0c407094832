"""Frameworks on aiokafka run unmodified, too."""

from __future__ import annotations

import asyncio

from faststream import FastStream
from faststream.kafka import KafkaBroker

from sordini.testing import Scenario, simulate

ORDERS = 8


def test_a_faststream_application_consumes_and_publishes_under_faults():
    async def app(bootstrap_servers: str, scenario: Scenario) -> None:
        broker = KafkaBroker(bootstrap_servers.split(","), logger=None)

        @broker.subscriber("orders", group_id="capitals", auto_offset_reset="earliest")
        @broker.publisher("capitals")
        async def handle(order: str) -> str:
            return order.upper()

        await FastStream(broker, logger=None).run()

    async def load(bootstrap_servers: str, scenario: Scenario) -> None:
        for number in range(ORDERS):
            await asyncio.sleep(scenario.random.expovariate(1))
            await scenario.send("orders", f"order {number}")

    async def settled(scenario: Scenario) -> None:
        assert {record.text for record in await scenario.read("capitals")} == {f"ORDER {n}" for n in range(ORDERS)}

    result = simulate(
        app, seed=2, topics={"orders": 2, "capitals": 2}, load=load, settled=settled, instances=2, duration=30
    ).check()
    assert result.replay().digest == result.digest
