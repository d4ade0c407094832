"""What the controller asks of a broker: LeaderAndIsr, UpdateMetadata and StopReplica.

They are carried out one at a time, in the order in which they came in, whatever connections they came by: that is the
receiver's promise. Whether one is of the past is judged when its turn has come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sordini.broker.control_wire import Request, Response, command_of, response_of
from sordini.broker.dispatch import Call, Route
from sordini.broker.handlers.guard import check_between_brokers
from sordini.broker.network.ports import Pending
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.replication.controller.cluster import Answer, Command

Later = Callable[[Call, Awaitable[Any]], Pending]
Receive = Callable[[Command], Awaitable[Answer]]


class ControlHandler:
    """Hands commands to their receiver."""

    def __init__(self, receive: Receive, inter_broker_listener: str, later: Later) -> None:
        self._receive = receive
        self._listener = inter_broker_listener
        self._later = later

    def routes(self) -> list[Route]:
        keys = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
        return [Route(key, self.handle, self.refuse) for key in keys]

    def handle(self, call: Call) -> Pending:
        check_between_brokers(call, self._listener)
        return self._later(call, self._carry_out(command_of(call.body, self._listener)))

    async def _carry_out(self, command: Command) -> Response:
        return response_of(command, await self._receive(command))

    def refuse(self, request: Request, code: ErrorCode) -> Response:
        """The same code for the whole and for every partition named."""
        return response_of(command_of(request, self._listener), Answer(code))
