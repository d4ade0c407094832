"""The share coordinator's five requests, which brokers send: one row for each share partition of one group (KIP-932).

Each share partition is served by itself, and the response is made when the last one is answered.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import BROKERS_ONLY
from sordini.broker.share_state.coordinator import ShareCoordinator
from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.share_state.state_apis import STATE_APIS, Answer, StateApi, StateKind
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicId

ROW_STEPS: Final = 20
"""The cost of one share partition: a record is appended."""
BATCHES_PER_STEP: Final = 2


class ShareStateHandler:
    """Serves leaders of partitions, and group coordinators."""

    def __init__(self, coordinator: ShareCoordinator) -> None:
        self._coordinator = coordinator

    def routes(self) -> list[Route]:
        return [
            Route(api.key, partial(self._serve, api), partial(_error_response, api), BROKERS_ONLY) for api in STATE_APIS
        ]

    def _serve(self, api: StateApi, call: Call) -> Work[Any | DelayedResponse]:
        """A request without a group, or with a topic without partitions, is answered with nothing, as in Kafka."""
        request = call.body
        if not request.group_id or not all(topic.partitions for topic in request.topics):
            return api.response()
        rows = _Rows(api, Responder(call))
        for topic in request.topics:
            result = rows.add_topic(topic)
            for index, row in enumerate(topic.partitions):
                yield ROW_STEPS + _batches_of(api, row) // BATCHES_PER_STEP
                key = SharePartitionKey(request.group_id, TopicId(topic.topic_id), row.partition)
                self._serve_row(api, key, row, partial(rows.answer, result, index), partial(rows.refuse, result, index))
        return rows.result()

    def _serve_row(self, api: StateApi, key: SharePartitionKey, row: Any, answer: Any, refuse: Any) -> None:
        try:
            self._coordinator.serve(api.kind, key, api.argument_of(row), answer)
        except BrokerError as error:
            refuse(error)


class _Rows:
    """The rows of one response, which is made when all of them are there."""

    def __init__(self, api: StateApi, responder: Responder[Any]) -> None:
        self._api = api
        self._responder = responder
        self._response = api.response()
        self._missing = 1
        """Rows that are not answered, and one while the request is being read."""

    def add_topic(self, topic: Any) -> Any:
        """A topic of the request: its rows in the response, which are filled in as they are answered."""
        result = self._api.result(topic_id=topic.topic_id)
        result.partitions = [None] * len(topic.partitions)
        for index, row in enumerate(topic.partitions):
            result.partitions[index] = row.partition
        self._missing += len(topic.partitions)
        self._response.results.append(result)
        return result

    def answer(self, result: Any, index: int, answer: Answer) -> None:
        self._fill(result, index, self._api.result_row(result.partitions[index], answer))

    def refuse(self, result: Any, index: int, error: BrokerError) -> None:
        row = self._api.result_row(result.partitions[index], self._api.failure(error.code))
        row.error_message = str(error)
        self._fill(result, index, row)

    def result(self) -> Any | DelayedResponse:
        """What the handler returns when it has served the last row."""
        self._count()
        return self._responder.result()

    def _fill(self, result: Any, index: int, row: Any) -> None:
        result.partitions[index] = row
        self._count()

    def _count(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._responder.answer(self._response)


def _batches_of(api: StateApi, row: Any) -> int:
    return len(row.state_batches) if api.kind is StateKind.WRITE else 0


def _error_response(api: StateApi, request: Any, code: ErrorCode) -> Any:
    """The same code for every row of the request."""
    return api.response(
        results=[
            api.result(
                topic_id=topic.topic_id,
                partitions=[api.result_row(row.partition, api.failure(code)) for row in topic.partitions],
            )
            for topic in request.topics
        ]
    )
