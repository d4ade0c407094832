"""Requests on stored states to share coordinators on other brokers.

One request at a time for each broker and kind; what comes meanwhile for the same group travels together in the next.
A share partition occurs once in a request: a further question about it waits for the one after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.share_state.state_apis import Answer, Argument, StateApi, StateKind
from sordini.client.errors import NotServed
from sordini.client.versions import ServedVersions, negotiate, run_steps
from sordini.protocol.errors import ErrorCode
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.ports import BrokerLink, BrokerLinks, Logger, Spawn, Unreachable
from sordini.system.named_tuple import NamedTuple

SHARE_PARTITIONS_PER_REQUEST: Final = 1_000
RUNS_PER_REQUEST: Final = 10_000
"""Of all writes in a request, but for the first, which is sent in any case."""


class StateQuestion(NamedTuple):
    """One share partition's part of a request."""

    api: StateApi
    key: SharePartitionKey
    argument: Argument
    on_answer: Callable[[Answer], None]

    def fail(self, code: ErrorCode) -> None:
        self.on_answer(self.api.failure(code))

    @property
    def runs(self) -> int:
        return len(self.argument.runs) if self.api.kind is StateKind.WRITE else 0


class RemoteStates:
    """The questions to all other brokers."""

    def __init__(self, this_broker: BrokerId, links: BrokerLinks, spawn: Spawn, log: Logger, timeout_ms: int) -> None:
        """`timeout_ms` limits the wait for a response: request.timeout.ms."""
        self._this_broker = this_broker
        self._links = links
        self._spawn = spawn
        self._log = log
        self._timeout_ms = timeout_ms
        self._queues: dict[tuple[BrokerId, StateKind], _BrokerQueue] = {}

    def ask(self, broker_id: BrokerId, question: StateQuestion) -> None:
        """Ask the coordinator on that broker: NETWORK_EXCEPTION stands for no answer. Raises nothing."""
        place = broker_id, question.api.kind
        queue = self._queues.get(place)
        if queue is None:
            link = self._links.link(broker_id, f"broker-{self._this_broker}-share-state")
            queue = self._queues[place] = _BrokerQueue(broker_id, link, self._log, self._timeout_ms)
        queue.waiting.append(question)
        if not queue.is_sending:
            queue.is_sending = True
            self._spawn(queue.send())

    def close(self) -> None:
        """Close all connections; questions without an answer are answered NETWORK_EXCEPTION."""
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()


class _BrokerQueue:
    """The questions of one kind that wait for one broker."""

    def __init__(self, broker_id: BrokerId, link: BrokerLink, log: Logger, timeout_ms: int) -> None:
        self.waiting: deque[StateQuestion] = deque()
        self.is_sending = False
        self._broker_id = broker_id
        self._link = link
        self._log = log
        self._timeout_ms = timeout_ms
        self._served: ServedVersions | None = None
        self._is_failing = False

    def close(self) -> None:
        self._link.close()

    async def send(self) -> None:
        """Send until nothing waits."""
        try:
            while self.waiting:
                await self._exchange(self._take())
        finally:
            self.is_sending = False

    def _take(self) -> list[StateQuestion]:
        """The questions of the next request, in their order: those of the first one's group."""
        group_id = self.waiting[0].key.group_id
        taken: dict[SharePartitionKey, StateQuestion] = {}
        later: deque[StateQuestion] = deque()
        runs = 0
        for question in self.waiting:
            runs += question.runs
            if (
                question.key.group_id != group_id
                or question.key in taken
                or len(taken) == SHARE_PARTITIONS_PER_REQUEST
                or (taken and runs > RUNS_PER_REQUEST)
            ):
                later.append(question)
            else:
                taken[question.key] = question
        self.waiting = later
        return list(taken.values())

    async def _exchange(self, questions: list[StateQuestion]) -> None:
        api = questions[0].api
        try:
            version = await self._version(api)
            response = await self._link.ask(_request(api, questions), version, self._timeout_ms)
        except NotServed:
            self._log.warning("share state not reached: its coordinator is too old", broker=self._broker_id)
            for question in questions:
                question.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        except Unreachable as failure:
            self._served = None
            if not self._is_failing:
                self._is_failing = True
                self._log.warning("share state not reached", broker=self._broker_id, reason=str(failure))
            for question in questions:
                question.fail(ErrorCode.NETWORK_EXCEPTION)
            return
        if self._is_failing:
            self._is_failing = False
            self._log.info("share state reached again", broker=self._broker_id)
        answers = {
            (TopicId(topic.topic_id), row.partition): api.answer_of(row)
            for topic in response.results
            for row in topic.partitions
        }
        for question in questions:
            missing = api.failure(ErrorCode.NETWORK_EXCEPTION)
            question.on_answer(answers.get((question.key.topic_id, question.key.partition), missing))

    async def _version(self, api: StateApi) -> int:
        """The newest that both know. Raises NotServed and Unreachable."""
        if self._served is None:
            self._served = await run_steps(
                negotiate(), lambda request, version: self._link.ask(request, version, self._timeout_ms)
            )
        return self._served.highest(APIS[api.key])


def _request(api: StateApi, questions: Sequence[StateQuestion]) -> Any:
    topics: dict[TopicId, Any] = {}
    for question in questions:
        key = question.key
        topic = topics.setdefault(key.topic_id, api.topic(topic_id=key.topic_id))
        topic.partitions.append(api.row(key.partition, question.argument))
    return api.request(group_id=questions[0].key.group_id, topics=list(topics.values()))
