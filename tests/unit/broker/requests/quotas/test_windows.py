"""The windows of rates and of mutations, from the configuration."""

from __future__ import annotations

from sordini.broker.requests.quotas.rates import RateWindows
from tests.support.unit_broker import a_broker


async def test_windows_are_those_of_the_configuration() -> None:
    entries = {
        "quota.window.num": "3",
        "quota.window.size.seconds": "2",
        "controller.quota.window.num": "5",
        "controller.quota.window.size.seconds": "4",
    }
    async with a_broker(entries) as broker:
        quotas = broker.parts.quotas
        quotas.changed("clients/app", {"producer_byte_rate": "1000", "controller_mutation_rate": "1"})
        meters = quotas.meters("alice", b"app")
        assert meters is not None
        assert meters.produced is not None
        assert meters.produced.rate.length == RateWindows(3, 2_000)
        bucket = quotas.mutation_bucket("alice", "app", 0)
        assert bucket is not None
        bucket.take(21, 0)
        assert bucket.wait_ms(0) == 1_000, "five windows of four seconds"
