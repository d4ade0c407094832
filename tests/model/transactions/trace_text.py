"""A trace of the transactional model as text."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.explore import Did
from tests.model.transactions.rules import CLOSED, OK
from tests.model.transactions.state import ABORT, COMMIT, MARKER, NONE, STATE_NAMES, Line, Marker, Request, World

BROKERS = ("coordinator X", "coordinator Y", "the group coordinator")
LETTERS = "XYG"
OUTCOMES = {COMMIT: "commit", ABORT: "abort"}
ENDED = {COMMIT: "committed", ABORT: "aborted"}
FATES = ("-", "open", "committed", "aborted", "twice")


def reported(way: list[tuple[Did, World]], broken: str) -> str:
    """Two lines per step: the step, and the state after it."""
    scope = _Names(way[0][1])
    lines = [
        "Transactions by number; a connection as broker and number. Delayed messages are named after `on the way`."
    ]
    for number, (did, world) in enumerate(way):
        lines += [f"{number:3}. {scope.done(did)}", f"       {scope.seen(world)}"]
    lines.append(f"     Broken: {broken}.")
    return "\n".join(lines)


class _Names:
    """Names in the traces of one scope."""

    def __init__(self, first: World) -> None:
        self.transactions = len(first.lines[0].clients[0].answers)
        self.partitions = len(first.lines[0].data)
        self.ids = len(first.lines)

    def done(self, did: Did) -> str:
        match did:
            case ("starts",):
                return "Every producer has its producer id and epoch, a successor none; the coordinator is X."
            case (_, "moves", to):
                return f"The transaction coordinator moves to {LETTERS[to]}."
            case (_, "group moves"):
                return "The group coordinator moves away and back."
            case (line, "marks", marker, is_written):
                return f"{self.message(line, marker)} {_marked(is_written)}; the coordinator has the answer."
            case (line, "marker is not answered", marker):
                return f"{self.message(line, marker)} gets no answer in time; the coordinator connects again."
            case (line, "marker arrives", marker, is_written):
                return f"The delayed {self.message(line, marker)} arrives and {_marked(is_written)}."
            case (line, "asks", request, reply):
                return f"{self.message(line, request)}: {_replied(reply)}."
            case (line, "is not answered", request):
                return f"{self.message(line, request)} gets no answer in time; the client abandons the connection."
            case (line, "gives up", request):
                return f"{self.message(line, request)} gets no answer in time; the client decides to abort."
            case (line, "asks ahead", request):
                return f"{self.message(line, request)}, which is not the coordinator; the client gives that up."
            case (line, "arrives", request, reply):
                return f"The delayed {self.message(line, request)} arrives: {_replied(reply)}."
            case (line, "is accepted late", request, reply):
                return f"The delayed {self.message(line, request)} arrives, accepted only now: {_replied(reply)}."
        return str(did)

    def message(self, line: int, message: Request | Marker) -> str:
        if isinstance(message, Marker):
            what = f"{OUTCOMES[message.outcome]} marker to {self.place(message.partition)}"
            return f"{what} (coordinator epoch {message.coordinator_epoch}, connection {message.connection})"
        outcome = f"({OUTCOMES[message.outcome]})" if message.outcome != NONE else ""
        where = f" {self.place(message.partition)}" if message.partition != NONE else ""
        sequence = f" sequence {message.sequence}" if message.sequence != NONE else ""
        to = "" if message.broker == NONE else f" to {BROKERS[message.broker]} on {self.link(message)}"
        return f"{message.kind}{outcome}{where}{sequence} of {self.client(line, message)}{to}"

    def client(self, line: int, request: Request) -> str:
        transaction = request.tag % self.transactions + 1
        if self.ids > 1:
            return f"producer {'AB'[line]}, transaction {transaction}"
        return f"transaction {transaction}" + (" of the successor" if request.client else "")

    def link(self, request: Request) -> str:
        return f"{LETTERS[request.broker]}{request.connection}"

    def place(self, partition: int) -> str:
        return "offsets" if partition == self.partitions else f"p{partition}"

    def seen(self, world: World) -> str:
        return "  |  ".join(f"{self.line(place, line)}" for place, line in enumerate(world.lines))

    def line(self, place: int, line: Line) -> str:
        return "; ".join(self._parts(place, line))

    def _parts(self, place: int, line: Line) -> Iterator[str]:
        entry = line.entry
        members = [self.place(one) for one in range(self.partitions + 1) if entry.partitions >> one & 1]
        yield f"{STATE_NAMES[entry.state]} {{{', '.join(members)}}}"
        for partition, data in enumerate(line.data):
            yield f"p{partition} [{self.fates(data.fates)}]"
        pending = [str(tag + 1) for tag in line.offsets.pending if tag != NONE]
        yield f"offsets [{self.fates(line.offsets.partition.fates)}]{' pending of ' + ', '.join(pending) if pending else ''}"
        answers = [ENDED[answer] for client in line.clients for answer in client.answers if answer != NONE]
        if answers:
            yield f"answered: {', '.join(answers)}"
        if line.delayed:
            yield f"on the way: {', '.join(_short(message) for message in line.delayed)}"

    def fates(self, fates: tuple[int, ...]) -> str:
        return " ".join(f"{tag + 1} {FATES[fate]}" for tag, fate in enumerate(fates) if fate) or "empty"


def _short(message: Request | Marker) -> str:
    if message.kind == MARKER:
        return MARKER
    connection = "" if message.broker == NONE else f" on {LETTERS[message.broker]}{message.connection}"
    outcome = f"({OUTCOMES[message.outcome]})" if message.outcome != NONE else ""
    return f"{message.kind}{outcome}{connection}"


def _marked(is_written: bool) -> str:
    return "is written" if is_written else "is refused"


def _replied(reply: str) -> str:
    return {OK: "served", CLOSED: "refused, the connection is closed"}.get(reply, reply)
