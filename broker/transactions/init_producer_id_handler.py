"""InitProducerId: producer ids for idempotent producers, and ids with epochs for transactional ones (KIP-98)."""

from __future__ import annotations

from sordini.broker.coordinators.producer_id_manager import ProducerIdManager
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.broker.transactions.machine.events import InitProducerId, ProducerIdentity, TransactionAnswer
from sordini.broker.transactions.machine.state import NO_CALLER
from sordini.broker.transactions.transaction_rules import InitProducerIdRule
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FIRST_VERSION_WITH_FENCED = 4
"""Producers before know INVALID_PRODUCER_EPOCH only."""


class ProducerIdHandler:
    """Serves idempotent producers itself, transactional ones by the coordinator."""

    def __init__(
        self, producer_ids: ProducerIdManager, transactions: TransactionCoordinator, later: RespondLater
    ) -> None:
        self._producer_ids = producer_ids
        self._transactions = transactions
        self._later = later

    def route(self) -> Route:
        return Route(ApiKey.INIT_PRODUCER_ID, self.handle, self.error_response, InitProducerIdRule())

    def handle(self, call: Call) -> InitProducerIdResponse | DelayedResponse:
        request: InitProducerIdRequest = call.body
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            raise BrokerError(ErrorCode.INVALID_REQUEST, "producer id and producer epoch must be set together")
        if request.transactional_id is not None:
            return self._init_transactional(call, request.transactional_id)
        producer_id = self._producer_ids.at_once()
        if producer_id is None:
            return self._later(call, self._allocate())
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    async def _allocate(self) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=await self._producer_ids.next(), producer_epoch=0)

    def _init_transactional(self, call: Call, transactional_id: str) -> InitProducerIdResponse | DelayedResponse:
        request: InitProducerIdRequest = call.body
        if request.enable_2pc or request.keep_prepared_txn:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "two-phase commit (KIP-939) is not served")
        expected = None if request.producer_id == -1 else ProducerIdentity(request.producer_id, request.producer_epoch)
        responder: Responder[InitProducerIdResponse] = Responder(call)

        def answer(given: TransactionAnswer) -> None:
            responder.answer(_response(given, call.version))

        event = InitProducerId(NO_CALLER, request.transaction_timeout_ms, expected)
        self._transactions.submit(transactional_id, event, answer, call.peer.number)
        return responder.result()

    @staticmethod
    def error_response(request: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
        del request
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _response(answer: TransactionAnswer, version: int) -> InitProducerIdResponse:
    error, producer = answer
    if error is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    if producer is None:
        return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
