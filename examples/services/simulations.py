"""How the example services are simulated: what starts each, what is sent to it, and what holds once it is at rest.

python -m examples.services.simulations ledger --seeds 0-199
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from examples.services.database import Database
from examples.services.invoicer import GROUP as INVOICERS
from examples.services.invoicer import INVOICES, ORDERS, Invoicer
from examples.services.ledger import PAYMENTS, Ledger
from examples.services.outbox import EVENTS, Outbox, Row
from examples.services.totals import Sum, Totals
from sordini.testing.simulation.app import App
from sordini.testing.simulation.run import Settled
from sordini.testing.simulation.scenario import Scenario
from sordini.testing.simulation.search import Search, search
from sordini.testing.simulation.simulate import Result, simulate

RECORDS = 25
GAP_S = 1.5


class Simulation(NamedTuple):
    """A service with what `simulate` needs beside it."""

    make: Callable[..., Any]
    """The service of a bootstrap address and, where it has one, a database."""
    load: App
    settled: Settled
    topics: Mapping[str, int]
    instances: int = 2
    has_database: bool = True
    settings: Mapping[str, Any] = {}

    async def app(self, bootstrap_servers: str, scenario: Scenario) -> None:
        needed = [database_of(scenario)] if self.has_database else []
        await self.make(bootstrap_servers, *needed).run()

    def run(self, seed: int, **more: Any) -> Result:
        return simulate(self.app, seed=seed, **self._settings(), **more)

    def search(self, seeds: Sequence[int], **more: Any) -> Search:
        return search(self.app, seeds, limit_s=None, **self._settings(), **more)  # All of them, however busy it is.

    def _settings(self) -> dict[str, Any]:
        return {
            "load": self.load,
            "settled": self.settled,
            "topics": self.topics,
            "instances": self.instances,
            **self.settings,
        }


def database_of(scenario: Scenario) -> Database:
    """One for all instances, which outlives their crashes."""
    database: Database = scenario.state.setdefault("database", Database(scenario.random))
    return database


# The ledger.


async def pay(_bootstrap_servers: str, scenario: Scenario) -> None:
    sent = scenario.state["payments"] = []
    for number in range(RECORDS):
        await asyncio.sleep(scenario.random.expovariate(1 / GAP_S))
        payment = {"id": number, "account": f"account {number % 3}", "amount": scenario.random.randint(1, 9)}
        await scenario.send(PAYMENTS, payment, key=payment["account"])
        sent.append(payment)


async def all_is_booked_once(scenario: Scenario) -> None:
    expected = Counter[str]()
    for payment in scenario.state["payments"]:
        expected[payment["account"]] += payment["amount"]
    balances = database_of(scenario).table("balances")
    assert balances == expected, f"balances are {dict(sorted(balances.items()))}, not {dict(sorted(expected.items()))}"
    unread = await scenario.unread("ledger")
    assert not unread, f"{len(unread)} payments are not committed"


# The invoicer.


async def order(_bootstrap_servers: str, scenario: Scenario) -> None:
    sent = scenario.state["orders"] = []
    for number in range(RECORDS):
        await asyncio.sleep(scenario.random.expovariate(1 / GAP_S))
        await scenario.send(ORDERS, {"id": number, "price": number}, key=str(number % 5))
        sent.append(number)


async def each_order_has_one_invoice(scenario: Scenario) -> None:
    found = Counter(record.json["order"] for record in await scenario.read(INVOICES))
    twice = [number for number, times in found.items() if times > 1]
    assert not twice, f"orders {twice} have more than one invoice"
    missing = [number for number in scenario.state["orders"] if number not in found]
    assert not missing, f"orders {missing} have no invoice"
    unread = await scenario.unread(INVOICERS)
    assert not unread, f"{len(unread)} orders are not committed"


# The totals: of invoices in transactions, of which some are aborted.


async def invoice(_bootstrap_servers: str, scenario: Scenario) -> None:
    scenario.state["total"] = 0
    number = 0
    while number < RECORDS:
        await asyncio.sleep(scenario.random.expovariate(1 / GAP_S))
        count = scenario.random.randint(1, 3)
        invoices = [{"order": number + index, "total": number + index} for index in range(count)]
        if await scenario.send_together(INVOICES, invoices, commits=scenario.random.random() < 0.7):
            scenario.state["total"] += sum(one["total"] for one in invoices)
            number += count


async def all_is_added_up(scenario: Scenario) -> None:
    sums: Mapping[Any, Sum] = database_of(scenario).table("sums")
    total = sum(one.total for one in sums.values())
    expected = scenario.state["total"]
    assert total == expected, f"the invoices' total is {total}, not {expected}"


# The outbox.


async def write_events(_bootstrap_servers: str, scenario: Scenario) -> None:
    rows = scenario.state["rows"] = []
    outbox = database_of(scenario).table("outbox")
    for number in range(RECORDS * 2):
        await asyncio.sleep(scenario.random.expovariate(2 / GAP_S))
        row = Row(number, f"key {number % 3}", json.dumps({"event": number}))
        outbox[number] = row
        rows.append(row)


async def all_events_are_published(scenario: Scenario) -> None:
    left = sorted(database_of(scenario).table("outbox"))
    assert not left, f"events {left} are not published"
    published: dict[str, list[str]] = {}
    for record in await scenario.read(EVENTS):
        of_key = published.setdefault(record.key.decode() if record.key else "", [])
        if record.text not in of_key:
            of_key.append(record.text or "")
    for key in sorted({row.key for row in scenario.state["rows"]}):
        written = [row.text for row in scenario.state["rows"] if row.key == key]
        assert published.get(key) == written, f"of {key} were published {published.get(key)}, and not {written}"


SIMULATIONS: Mapping[str, Simulation] = {
    "ledger": Simulation(Ledger, pay, all_is_booked_once, {PAYMENTS: 2}),
    "invoicer": Simulation(Invoicer, order, each_order_has_one_invoice, {ORDERS: 2, INVOICES: 2}, has_database=False),
    "totals": Simulation(Totals, invoice, all_is_added_up, {INVOICES: 2}),
    "outbox": Simulation(Outbox, write_events, all_events_are_published, {EVENTS: 2}, instances=1),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Search the seeds of an example service.")
    parser.add_argument("service", choices=sorted(SIMULATIONS))
    parser.add_argument("--seeds", default="0-199", metavar="A-B", help="both ends included")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    found = SIMULATIONS[arguments.service].search(range(int(first), int(last or first) + 1))
    print(found.text())
    if found.failure is not None:
        print(found.failure.text())
    return 0 if found.failure is None else 1


if __name__ == "__main__":
    raise SystemExit(main())
