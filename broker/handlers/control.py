"""What the controller asks of a broker: LeaderAndIsr, UpdateMetadata and StopReplica.

They are carried out one at a time, in the order in which they came in, whatever connections they came by: that is the
receiver's promise. Whether one is of the past is judged when its turn has come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from itertools import chain
from typing import Any

from sordini.broker.control.command_origin import CommandOrigin
from sordini.broker.control.command_receiver import CommandReceiver
from sordini.broker.control.command_validation import check_sender, filter_command
from sordini.broker.control.control_wire import Request, Response, command_of, response_of
from sordini.broker.dispatch import Call, Route
from sordini.broker.handlers.request_checks import BetweenBrokers
from sordini.broker.network.ports import Log, Pending
from sordini.broker.requests.error_responses import ROWS_PER_PIECE, joined, pieces
from sordini.broker.requests.slice_scheduler import Slices, Work
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.replication.cluster_model import Answer, Command, UpdateMetadata

Later = Callable[[Call, Awaitable[Any]], Pending]


class ControlHandler:
    """Hands commands to their receiver: those that may be sent, from who may send them, without what cannot be."""

    def __init__(
        self,
        receiver: CommandReceiver,
        origin: CommandOrigin,
        brokers: BetweenBrokers,
        later: Later,
        slices: Slices,
        log: Log,
    ) -> None:
        self._slices = slices
        self._receiver = receiver
        self._origin = origin
        self._brokers = brokers
        self._later = later
        self._log = log

    def routes(self) -> list[Route]:
        keys = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
        return [Route(key, self.handle, self.refuse) for key in keys]

    def handle(self, call: Call) -> Work[Pending]:
        self._brokers.check(call)
        command = yield from self._command_of(call.body)
        check_sender(command)
        return self._later(call, self._carry_out(call, command))

    def _command_of(self, request: Request) -> Work[Command]:
        """The command of a request, read piece by piece; a short request is one piece."""
        commands = []
        for piece in pieces(request, ROWS_PER_PIECE):
            commands.append(command_of(piece, self._brokers.listener))
            yield ROWS_PER_PIECE
        first, *others = commands
        if not others:
            return first
        arrays = [field.name for field in fields(first) if isinstance(getattr(first, field.name), tuple)]
        whole: dict[str, Any] = {name: tuple(chain(*(getattr(one, name) for one in commands))) for name in arrays}
        return replace(first, **whole)

    async def _carry_out(self, call: Call, command: Command) -> Response:
        code = await self._origin.refusal(command, self._receiver.broker_epoch)
        if code:
            return await self._slices.through(_response_of(command, Answer(code)))
        sound, refused = await self._slices.through(filter_command(command))
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
        whole = Answer(answer.error, {**answer.partitions, **refused})
        return await self._slices.through(_response_of(command, whole))

    def refuse(self, request: Request, code: ErrorCode) -> Response:
        """The same code for the whole and for every partition named."""
        return response_of(command_of(request, self._brokers.listener), Answer(code))


def _response_of(command: Command, answer: Answer) -> Work[Response]:
    """The response, made piece by piece where it names many partitions."""
    if isinstance(command, UpdateMetadata) or len(command.partitions) <= ROWS_PER_PIECE:
        yield 0
        return response_of(command, answer)
    starts = range(0, len(command.partitions), ROWS_PER_PIECE)
    whole: Any = command
    some = (replace(whole, partitions=command.partitions[start : start + ROWS_PER_PIECE]) for start in starts)
    response: Response = yield from joined(response_of(one, answer) for one in some)
    return response
