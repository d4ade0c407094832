"""What the controller asks of a broker: LeaderAndIsr, UpdateMetadata and StopReplica.

They are carried out one at a time, in the order in which they came in, whatever connections they came by: that is the
receiver's promise. Whether one is of the past is judged when its turn has come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sordini.broker.command_origin import CommandOrigin
from sordini.broker.commands import CommandReceiver
from sordini.broker.control.checks import check_sender, sifted
from sordini.broker.control_wire import Request, Response, command_of, response_of
from sordini.broker.dispatch import Call, Route
from sordini.broker.handlers.guard import BetweenBrokers
from sordini.broker.network.ports import Log, Pending
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.replication.controller.cluster import Answer, Command

Later = Callable[[Call, Awaitable[Any]], Pending]


class ControlHandler:
    """Hands commands to their receiver: those that may be sent, from who may send them, without what cannot be."""

    def __init__(
        self, receiver: CommandReceiver, origin: CommandOrigin, brokers: BetweenBrokers, later: Later, log: Log
    ) -> None:
        self._receiver = receiver
        self._origin = origin
        self._brokers = brokers
        self._later = later
        self._log = log

    def routes(self) -> list[Route]:
        keys = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
        return [Route(key, self.handle, self.refuse) for key in keys]

    def handle(self, call: Call) -> Pending:
        self._brokers.check(call)
        command = command_of(call.body, self._brokers.listener)
        check_sender(command)
        return self._later(call, self._carry_out(call, command))

    async def _carry_out(self, call: Call, command: Command) -> Response:
        code = await self._origin.refusal(command, self._receiver.broker_epoch)
        if code:
            return response_of(command, Answer(code))
        sound, refused = sifted(command)
        if refused:
            name, code = next(iter(refused.items()))
            self._log.warning(
                "parts of a command refused",
                command=type(command).__name__,
                peer=str(call.peer),
                count=len(refused),
                first=str(name),
                reason=code.name,
            )
        answer = await self._receiver.receive(sound)
        return response_of(command, Answer(answer.error, {**answer.partitions, **refused}))

    def refuse(self, request: Request, code: ErrorCode) -> Response:
        """The same code for the whole and for every partition named."""
        return response_of(command_of(request, self._brokers.listener), Answer(code))
