"""What is only read here: transactions, access control entries, users and quotas."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from sordini.admin.security.acl_requests import list_acls
from sordini.admin.security.quota_requests import list_quotas
from sordini.admin.security.user_requests import list_users
from sordini.admin.transactions.transaction_requests import Filter, describe_transaction, list_transactions
from sordini.client.errors import NotServed, Refused
from sordini.console.pages.paging import Paging
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit, WrongInput
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store.acl_model import AclFilter

PAGE_ROWS: Final = 100


def routes(gate: LoginGate) -> list[Route]:
    return [
        gate.get("/transactions", show_transactions),
        gate.get("/transaction", show_transaction),
        gate.get("/acls", show_acls),
        gate.get("/users", show_users),
        gate.get("/quotas", show_quotas),
    ]


async def show_transactions(visit: Visit) -> Response:
    sought = visit.field("find").strip()
    rows = [row for row in await list_transactions(visit.cluster, Filter()) if sought in row["transactional_id"]]
    paging = Paging.of(rows, visit.number("page", 1, 1, 100_000), PAGE_ROWS)
    return visit.page("transactions.html", paging=paging, find=sought)


async def show_transaction(visit: Visit) -> Response:
    name = visit.needed("id")
    found = await describe_transaction(visit.cluster, name)
    if found is None:
        raise WrongInput(f"there is no transactional id {name}")
    partitions = [TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions]
    return visit.page("transaction.html", name=name, found=found, partitions=sorted(partitions))


async def show_acls(visit: Visit) -> Response:
    sought, problem, rows = visit.field("find").strip(), None, []
    try:
        rows = await list_acls(visit.cluster, [AclFilter()])
    except (Refused, NotServed) as error:
        problem = str(error)
    rows = [row for row in rows if sought in " ".join(map(str, row.values()))]
    paging = Paging.of(rows, visit.number("page", 1, 1, 100_000), PAGE_ROWS)
    return visit.page("acls.html", paging=paging, find=sought, problem=problem)


async def show_users(visit: Visit) -> Response:
    problem, rows = None, []
    try:
        rows = await list_users(visit.cluster)
    except (Refused, NotServed) as error:
        problem = str(error)
    paging = Paging.of(rows, visit.number("page", 1, 1, 100_000), PAGE_ROWS)
    return visit.page("users.html", paging=paging, problem=problem)


async def show_quotas(visit: Visit) -> Response:
    problem, rows = None, []
    try:
        rows = await list_quotas(visit.cluster, {})
    except (Refused, NotServed) as error:
        problem = str(error)
    paging = Paging.of(rows, visit.number("page", 1, 1, 100_000), PAGE_ROWS)
    return visit.page("quotas.html", paging=paging, problem=problem)
