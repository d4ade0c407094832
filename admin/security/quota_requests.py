"""The requests of `sordini quotas`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient, error_text
from sordini.client.errors import Refused, check
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntity,
    AlteredEntry,
    QuotaOp,
)
from sordini.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    FilterComponent,
)

EXACT, IS_DEFAULT = 0, 1
DEFAULT_NAME: Final = "default"

Row = dict[str, Any]


async def list_quotas(cluster: ClusterClient, named: Mapping[str, str]) -> list[Row]:
    """The quotas of entities with these parts: one row for each."""
    components = [
        FilterComponent(entity_type=kind, match_type=IS_DEFAULT, match=None)
        if name == DEFAULT_NAME
        else FilterComponent(entity_type=kind, match_type=EXACT, match=name)
        for kind, name in named.items()
    ]

    async def attempt() -> DescribeClientQuotasResponse:
        link = await cluster.any_broker()
        answer: DescribeClientQuotasResponse = await link.ask(DescribeClientQuotasRequest(components=components))
        check("quotas", answer.error_code, answer.error_message)
        return answer

    answer = await cluster.retry(attempt)
    return [
        {
            "entity": {part.entity_type: part.entity_name for part in entry.entity},
            "quota": value.key,
            "value": value.value,
        }
        for entry in answer.entries or ()
        for value in entry.values
    ]


async def alter_quotas(
    cluster: ClusterClient, entity: Mapping[str, str | None], values: Mapping[str, float | None]
) -> list[Row]:
    """Set quotas of one entity; None removes one."""
    request = AlterClientQuotasRequest(
        entries=[
            AlteredEntry(
                entity=[AlteredEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                ops=[QuotaOp(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
            )
        ]
    )

    async def attempt() -> AlterClientQuotasResponse:
        link = await cluster.controller()
        answer: AlterClientQuotasResponse = await link.ask(request)
        for row in answer.entries:
            if row.error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
                raise Refused("quotas", row.error_code, row.error_message)
        return answer

    answer = await cluster.retry(attempt)
    error: str | None = "the broker's answer says nothing of this entity"
    for row in answer.entries:
        error = error_text("quotas", row.error_code, row.error_message)
    return [{"entity": dict(entity), "quota": key, "value": value, "error": error} for key, value in values.items()]
