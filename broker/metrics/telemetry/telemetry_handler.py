"""GetTelemetrySubscriptions and PushTelemetry (KIP-714). Every client that is connected may send them, as with Apache
Kafka: they are about the client itself.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.metrics.telemetry.client_telemetry import ClientTelemetry
from sordini.broker.metrics.telemetry.machine.instances import RESERVED, Instance, Push
from sordini.broker.metrics.telemetry.machine.subscriptions import ClientIdentity
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.security.rules.simple_rules import OfItself
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from sordini.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from sordini.protocol.primitives import ZERO_UUID
from sordini.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD

ACCEPTED: Final = [ZSTD, LZ4, GZIP, SNAPPY]
"""The first one that a client has is used; what is not compressed is accepted, too."""


class TelemetryHandler:
    """Tells clients what to push, and takes it."""

    def __init__(self, telemetry: ClientTelemetry, later: RespondLater) -> None:
        self._telemetry = telemetry
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, self.subscriptions, self.no_subscriptions, OfItself()),
            Route(ApiKey.PUSH_TELEMETRY, self.push, self.not_pushed, OfItself()),
        ]

    def subscriptions(self, call: Call) -> GetTelemetrySubscriptionsResponse:
        request: GetTelemetrySubscriptionsRequest = call.body
        telemetry = self._telemetry
        instance_id = request.client_instance_id
        if instance_id == ZERO_UUID:
            instance_id = telemetry.new_id()
        instance = self._instance(call, instance_id)
        error = telemetry.instances.asked(instance, telemetry.now)
        if error is not ErrorCode.NONE:
            return self.no_subscriptions(request, error)
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.subscribed.subscription_id,
            accepted_compression_types=ACCEPTED,
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=telemetry.bytes_max,
            delta_temporality=True,
            requested_metrics=list(instance.subscribed.metrics),
        )

    def push(self, call: Call) -> PushTelemetryResponse | DelayedResponse:
        request: PushTelemetryRequest = call.body
        if request.client_instance_id in RESERVED:
            return self.not_pushed(request, ErrorCode.INVALID_REQUEST)
        instance = self._instance(call, request.client_instance_id)
        size = len(request.metrics)
        push = Push(request.subscription_id, request.terminating, request.compression_type, size)
        error = self._telemetry.accept(instance, push)
        if error is not ErrorCode.NONE or not size:
            return self.not_pushed(request, error)
        return self._later(call, self._read(instance, request))

    async def _read(self, instance: Instance, request: PushTelemetryRequest) -> PushTelemetryResponse:
        error = await self._telemetry.read(instance, request.compression_type, request.metrics)
        return self.not_pushed(request, error)

    def _instance(self, call: Call, instance_id: bytes) -> Instance:
        peer = call.peer
        client = ClientIdentity(
            call.client_id, peer.software_name, peer.software_version, peer.address, peer.port, str(peer.principal)
        )
        return self._telemetry.requested(instance_id, client, peer.connection_id)

    @staticmethod
    def no_subscriptions(_: GetTelemetrySubscriptionsRequest, code: ErrorCode) -> GetTelemetrySubscriptionsResponse:
        return GetTelemetrySubscriptionsResponse(error_code=code)

    @staticmethod
    def not_pushed(_: PushTelemetryRequest, code: ErrorCode) -> PushTelemetryResponse:
        return PushTelemetryResponse(error_code=code)
