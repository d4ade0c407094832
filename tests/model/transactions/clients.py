"""What a client does: one request after the other, and what follows from a reply or from none.

A client that gets no answer closes the connection and sends the request again on a new one, as all clients do. That a
request is processed and its answer lost is not a step of its own: it is a delayed message that arrives at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.transactions import state
from tests.model.transactions.rules import CLOSED, FATAL, OK
from tests.model.transactions.scopes import Scope
from tests.model.transactions.state import ABORT, COMMIT, GROUP, NONE, Line, Request, Shared, replaced


class Clients:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.program = scope.program
        self.end = len(self.program) * scope.transactions

    def requests(self, line: Line, shared: Shared, me: int) -> Iterator[tuple[Line, Request]]:
        """Every request that a client may send now, with the line after its connection was accepted."""
        client = line.clients[me]
        if client.is_failed or client.at == self.end:
            return
        transaction, step = divmod(client.at, len(self.program))
        tag = me * self.scope.transactions + transaction
        if client.epoch == NONE:
            kind, partition = state.INIT, NONE
        else:
            kind, partition = self.program[step]
        broker = shared.coordinator if kind in state.TO_COORDINATOR else GROUP if kind == state.OFFSETS else NONE
        opened, connection = self.connected(line, me, broker)
        epoch = client.former if kind == state.INIT else client.epoch
        request = Request(kind, me, tag, broker, connection, epoch, partition)
        if kind == state.PRODUCE:
            yield opened, request._replace(sequence=transaction - client.since)
        elif kind == state.END:
            for outcome in (COMMIT, ABORT) if client.outcome == NONE else (client.outcome,):
                yield with_client(opened, me, outcome=outcome), request._replace(outcome=outcome)
        else:
            yield opened, request

    def connected(self, line: Line, me: int, broker: int) -> tuple[Line, int]:
        """The client's connection to a broker; it is opened, and accepted, if there is none."""
        if broker == NONE:
            return line, NONE
        connections = line.clients[me].connections
        if connections[broker] != NONE:
            return line, connections[broker]
        connection = line.accepted[broker]
        line = line._replace(accepted=replaced(line.accepted, broker, connection + 1))
        return with_client(line, me, connections=replaced(connections, broker, connection)), connection

    def replied(self, line: Line, request: Request, reply: str) -> Line:
        """The line after the client has this reply."""
        me, client = request.client, line.clients[request.client]
        if reply == FATAL:
            return with_client(line, me, is_failed=True)
        if reply == CLOSED:
            return self.disconnected(line, me, request.broker)
        if reply != OK:
            return line
        if request.kind == state.INIT:
            return with_client(line, me, epoch=line.entry.epoch, since=client.at // len(self.program))
        if request.kind != state.END:
            return with_client(line, me, at=client.at + 1)
        transaction = client.at // len(self.program)
        answers = replaced(client.answers, transaction, request.outcome)
        ended = client._replace(at=client.at + 1, outcome=NONE, answers=answers)
        if client.bumps:
            ended = ended._replace(epoch=NONE, former=client.epoch, bumps=False)
        return line._replace(clients=replaced(line.clients, me, ended))

    def disconnected(self, line: Line, me: int, broker: int) -> Line:
        if broker == NONE:
            return line
        return with_client(line, me, connections=replaced(line.clients[me].connections, broker, NONE))

    def gives_up(self, line: Line, request: Request) -> Line | None:
        """The line after a client decided to abort instead of sending a request again; None where it cannot."""
        if request.kind in (state.INIT, state.END):
            return None
        client = line.clients[request.client]
        transaction, step = divmod(client.at, len(self.program))
        if step == 0:
            return None  # Nothing that it knows of is in the transaction.
        at = (transaction + 1) * len(self.program) - 1
        bumps = request.kind == state.PRODUCE
        return with_client(line, request.client, at=at, outcome=ABORT, bumps=bumps)


def with_client(line: Line, me: int, **changes: object) -> Line:
    return line._replace(clients=replaced(line.clients, me, line.clients[me]._replace(**changes)))
