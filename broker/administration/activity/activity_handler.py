"""DescribeBrokerActivity: what this broker does now, and its last events. Sordini's own request."""

from __future__ import annotations

from typing import Final

from sordini import __version__
from sordini.broker.administration.activity.broker_activity import BrokerActivity
from sordini.broker.administration.activity.event_log import EVENTS_MAX
from sordini.broker.requests.call import Call, Route
from sordini.broker.security.rules.simple_rules import on_cluster
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_broker_activity import (
    BrokerEventRow,
    DescribeBrokerActivityRequest,
    DescribeBrokerActivityResponse,
    ListenerConnections,
)
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.ports import Clock

ALL: Final = -1


class BrokerActivityHandler:
    """Names of topics are in the events: like DescribeLogDirs, it is for those who may describe the cluster."""

    def __init__(self, broker_id: BrokerId, activity: BrokerActivity, clock: Clock) -> None:
        self._broker_id = broker_id
        self._activity = activity
        self._clock = clock

    def route(self) -> Route:
        return Route(
            ApiKey.DESCRIBE_BROKER_ACTIVITY, self.describe, self.error_response, on_cluster(AclOperation.DESCRIBE)
        )

    def describe(self, call: Call) -> DescribeBrokerActivityResponse:
        request: DescribeBrokerActivityRequest = call.body
        activity = self._activity
        cpu = activity.cpu()
        count = None if request.events_max == ALL else max(request.events_max, 0)
        return DescribeBrokerActivityResponse(
            broker_id=self._broker_id,
            version=__version__,
            now_ms=self._clock.now_ms(),
            uptime_ms=activity.uptime_ms(),
            cpu_ms=cpu.cpu_ms,
            cpu_window_ms=cpu.window_ms,
            listeners=[
                ListenerConnections(name=name, connections=number) for name, number in activity.connections().items()
            ],
            events_remembered_max=EVENTS_MAX,
            events=[
                BrokerEventRow(
                    kind=event.kind,
                    began_at_ms=event.began_at_ms,
                    ended_at_ms=event.ended_at_ms,
                    topic=event.topic,
                    partitions=event.partitions,
                    segments=event.segments,
                    bytes_removed=event.bytes_removed,
                )
                for event in activity.events.newest(request.events_since_ms, count)
            ],
        )

    @staticmethod
    def error_response(_request: DescribeBrokerActivityRequest, code: ErrorCode) -> DescribeBrokerActivityResponse:
        return DescribeBrokerActivityResponse(error_code=code)
