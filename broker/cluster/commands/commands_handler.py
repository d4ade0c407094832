"""Requests of the controller to a broker: LeaderAndIsr, UpdateMetadata and StopReplica.

The receiver runs them one at a time, in the order of their arrival on any connection. A stale controller epoch is
detected when the command is run.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from sordini.broker.cluster.commands.command_origin import CommandOrigin
from sordini.broker.cluster.commands.command_receiver import CommandReceiver
from sordini.broker.cluster.commands.command_validation import check_sender, filter_command
from sordini.broker.cluster.commands.control_wire import Request, Response, command_of, response_of
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.error_responses import ROWS_PER_PIECE, merged, split
from sordini.broker.requests.request_checks import InterBrokerGuard
from sordini.broker.requests.slice_scheduler import SliceScheduler, Work
from sordini.broker.security.rules.simple_rules import BROKERS_ONLY
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.replication.cluster_model import Command, CommandAnswer, UpdateMetadata
from sordini.replication.ports import Logger


class ControlHandler:
    """Passes valid commands of permitted senders to the receiver, without their invalid partitions."""

    def __init__(
        self,
        receiver: CommandReceiver,
        origin: CommandOrigin,
        brokers: InterBrokerGuard,
        later: RespondLater,
        slices: SliceScheduler,
        log: Logger,
    ) -> None:
        self._slices = slices
        self._receiver = receiver
        self._origin = origin
        self._brokers = brokers
        self._later = later
        self._log = log

    def routes(self) -> list[Route]:
        keys = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
        return [Route(key, self.handle, self.error_response, BROKERS_ONLY) for key in keys]

    def handle(self, call: Call) -> Work[DelayedResponse]:
        self._brokers.check(call)
        command = yield from self._command_of(call.body)
        check_sender(command)
        return self._later(call, self._carry_out(call, command))

    def _command_of(self, request: Request) -> Work[Command]:
        """The command of a request, converted piece by piece; a short request is one piece."""
        commands = []
        for piece in split(request, ROWS_PER_PIECE):
            commands.append(command_of(piece, self._brokers.listener))
            yield ROWS_PER_PIECE
        first, *others = commands
        if not others:
            return first
        arrays = [name for name in first._fields if isinstance(getattr(first, name), tuple)]
        whole: dict[str, Any] = {name: tuple(chain(*(getattr(one, name) for one in commands))) for name in arrays}
        return first._replace(**whole)

    async def _carry_out(self, call: Call, command: Command) -> Response:
        code = await self._origin.refusal(command, self._receiver.broker_epoch)
        if code:
            return await self._slices.run(_response_of(command, CommandAnswer(code)))
        sound, refused = await self._slices.run(filter_command(command))
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
        whole = CommandAnswer(answer.error, {**answer.partitions, **refused})
        return await self._slices.run(_response_of(command, whole))

    def error_response(self, request: Request, code: ErrorCode) -> Response:
        """The same code for the whole request and for every partition in it."""
        return response_of(command_of(request, self._brokers.listener), CommandAnswer(code))


def _response_of(command: Command, answer: CommandAnswer) -> Work[Response]:
    """The response, made piece by piece where it has many partitions."""
    if isinstance(command, UpdateMetadata) or len(command.partitions) <= ROWS_PER_PIECE:
        yield 0
        return response_of(command, answer)
    starts = range(0, len(command.partitions), ROWS_PER_PIECE)
    whole: Any = command
    some = (whole._replace(partitions=command.partitions[start : start + ROWS_PER_PIECE]) for start in starts)
    response: Response = yield from merged(response_of(one, answer) for one in some)
    return response
