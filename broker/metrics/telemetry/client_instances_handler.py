"""DescribeClientInstances: the clients that push their metrics. Sordini's own request, for `sordini clients`."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from sordini.broker.metrics.telemetry.client_telemetry import ClientTelemetry
from sordini.broker.metrics.telemetry.machine.figures import Figures
from sordini.broker.metrics.telemetry.machine.instances import Instance
from sordini.broker.metrics.telemetry.machine.key_figures import is_key_figure
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import on_cluster
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_client_instances import (
    ClientFigureLabel,
    ClientFigureRow,
    ClientInstanceRow,
    DescribeClientInstancesRequest,
    DescribeClientInstancesResponse,
)
from sordini.protocol.primitives import ZERO_UUID
from sordini.replication.metadata_store.acl_model import AclOperation

INSTANCES_MAX: Final = 500
"""In one response."""


class ClientInstancesHandler:
    """Answers from what is remembered; without telemetry, that there is none."""

    def __init__(self, telemetry: ClientTelemetry | None) -> None:
        self._telemetry = telemetry

    def route(self) -> Route:
        return Route(
            ApiKey.DESCRIBE_CLIENT_INSTANCES, self.describe, self.error_response, on_cluster(AclOperation.DESCRIBE)
        )

    def describe(self, call: Call) -> Work[DescribeClientInstancesResponse]:
        request: DescribeClientInstancesRequest = call.body
        telemetry = self._telemetry
        if telemetry is None:
            return DescribeClientInstancesResponse(is_enabled=False)
        telemetry.instances.expire(telemetry.now)
        response = DescribeClientInstancesResponse(is_enabled=True)
        ids = [request.client_instance_id]
        if request.client_instance_id == ZERO_UUID:
            yield len(telemetry.instances) // 10
            known = telemetry.instances.ids(request.group_id)
            first = bisect_right(known, request.after)
            limit = max(1, min(request.instances_max, INSTANCES_MAX))
            ids = known[first : first + limit]
            response.has_more = first + limit < len(known)
        for instance_id in ids:
            instance = telemetry.instances.get(instance_id)
            if instance is not None:  # It may have been forgotten meanwhile.
                response.instances.append(_row(instance, _selected(request, instance.figures)))
                yield 1 + len(instance.figures)
        return response

    @staticmethod
    def error_response(_: DescribeClientInstancesRequest, code: ErrorCode) -> DescribeClientInstancesResponse:
        return DescribeClientInstancesResponse(error_code=code)


def _row(instance: Instance, figures: list[ClientFigureRow]) -> ClientInstanceRow:
    client, member = instance.client, instance.member
    return ClientInstanceRow(
        client_instance_id=instance.instance_id,
        client_id=client.client_id or "",
        software_name=client.software_name,
        software_version=client.software_version,
        address=client.address,
        port=client.port,
        principal=client.principal,
        group_id=member.group_id if member else "",
        group_member_id=member.member_id if member else "",
        subscription_id=instance.subscribed.subscription_id,
        push_interval_ms=instance.interval_ms,
        metrics=list(instance.subscribed.metrics),
        first_seen_at_ms=instance.first_seen_wall_ms,
        last_push_at_ms=instance.last_push_wall_ms,
        pushes=instance.pushes,
        pushed_bytes=instance.pushed_bytes,
        last_error=instance.last_error,
        is_terminating=instance.is_terminating,
        figures_dropped=instance.figures_dropped,
        figures=figures,
    )


def _selected(request: DescribeClientInstancesRequest, figures: Figures) -> list[ClientFigureRow]:
    return [
        ClientFigureRow(
            name=name.metric,
            labels=[ClientFigureLabel(key=key, value=value) for key, value in name.labels],
            kind=figure.kind,
            value=figure.value,
            at_ms=figure.at_ms,
        )
        for name, figure in sorted(figures.items())
        if (name.metric == request.metric if request.metric is not None else _is_shown(request, name.metric))
    ]


def _is_shown(request: DescribeClientInstancesRequest, metric: str) -> bool:
    return request.has_all_figures or is_key_figure(metric)
