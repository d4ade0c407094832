"""The walk against clusters that say what no healthy one says, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sordini.client.addresses import Address
from sordini.doctor.client_way.means import Means
from sordini.doctor.client_way.walk import examine
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Report
from sordini.doctor.report_text import report_lines, text_of
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.served_apis import Api
from sordini.system.clock import SystemClock
from tests.support.hostile_broker import HostileBroker


class ScriptedBroker(HostileBroker):
    """Answers everything; `change` edits its metadata."""

    def __init__(self, change: Callable[[MetadataResponse], None]) -> None:
        super().__init__()
        self.rows = 0
        self._change = change

    def _answer(self, api: Api, version: int) -> Any:
        answer = super()._answer(api, version)
        if isinstance(answer, MetadataResponse):
            self._change(answer)
        return answer


def examined(broker: HostileBroker) -> Report:
    async def run() -> Report:
        await broker.start()
        try:
            return await examine([Address("127.0.0.1", broker.port)], Means(SystemClock(), timeout_s=5))
        finally:
            await broker.close()
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
            await asyncio.sleep(0)  # Its connections, whose clients have gone, close in the next round of the loop.

    return asyncio.run(run())


def wrong(report: Report) -> list[Fault]:
    return [finding.fault for finding in report.wrong]


def test_a_cluster_that_names_no_controller_is_named() -> None:
    def change(found: MetadataResponse) -> None:
        found.controller_id = -1

    assert wrong(examined(ScriptedBroker(change))) == [Fault.NO_CONTROLLER]


def test_a_cluster_without_a_broker_in_its_metadata_is_named() -> None:
    def change(found: MetadataResponse) -> None:
        found.brokers = []

    broker = ScriptedBroker(change)
    report = examined(broker)
    assert wrong(report) == [Fault.NO_BROKERS]
    assert tuple(report.wrong[0].lines) == (f"advertised.listeners=PLAINTEXT://127.0.0.1:{broker.port}",)


def test_a_broker_without_a_version_in_common_is_named() -> None:
    broker = HostileBroker()
    broker.served = {key: api for key, api in broker.served.items() if key != ApiKey.METADATA}
    assert wrong(examined(broker)) == [Fault.VERSIONS]


def test_texts_of_a_hostile_cluster_cannot_move_the_cursor() -> None:
    broker = HostileBroker()
    broker.rows = 3
    report = examined(broker)
    lines = list(map(text_of, report_lines(report)))
    assert lines
    assert all(line.isprintable() for line in lines), lines
