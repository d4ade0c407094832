"""InitProducerId: producer ids for idempotent producers (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.coordinators.producer_id_manager import ProducerIdManager
from sordini.broker.dispatch import Call, RespondLater, Route
from sordini.broker.handlers.find_coordinator import NO_TRANSACTIONS
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class ProducerIdHandler:
    """Serves idempotent producers; this broker coordinates no transactions."""

    def __init__(
        self, producer_ids: ProducerIdManager, later: RespondLater, coordinates_transactions: Callable[[], bool]
    ) -> None:
        """`coordinates_transactions`: whether another broker of the cluster may."""
        self._producer_ids = producer_ids
        self._later = later
        self._coordinates_transactions = coordinates_transactions

    def route(self) -> Route:
        return Route(ApiKey.INIT_PRODUCER_ID, self.handle, self.error_response)

    def handle(self, call: Call) -> InitProducerIdResponse | DelayedResponse:
        request: InitProducerIdRequest = call.body
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            raise BrokerError(ErrorCode.INVALID_REQUEST, "producer id and producer epoch must be set together")
        if request.transactional_id is not None:
            if not request.transactional_id:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "a transactional id may not be empty")
            if self._coordinates_transactions():
                raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "another broker coordinates it")
            # Every client gives up at this code, and retries after COORDINATOR_NOT_AVAILABLE.
            raise BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS)
        producer_id = self._producer_ids.at_once()
        if producer_id is None:
            return self._later(call, self._allocate())
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    async def _allocate(self) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=await self._producer_ids.next(), producer_epoch=0)

    @staticmethod
    def error_response(request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
        del request
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
