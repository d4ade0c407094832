"""Which rows of a Fetch end its wait: every error a row can have, beside a partition that has no news, and alone.

Each case is one request with max_wait and min_bytes=1. Whether it waited is a fact and no timing: a broker that waits
answers after max_wait, however busy the machine; where an answer at once is right, max_wait is far beyond what a busy
machine takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.compat.situations.definitions import Values
from tests.compat.situations.wire import Broker, Conversation
from tests.compat.waits.tree import ELSEWHERE, EPOCHS, GONE, LEADER_EPOCH, OTHER, QUIET, SECRET

SHORT_MS, LONG_MS = 400, 4_000
"""max_wait where a wait is right, and where an answer at once is."""
ROOMY = 1_000_000
BY_ID = 13
NO_SESSION, NEW_SESSION = -1, 0
CONSUMER = -1
UNKNOWN_ID = b"\x05" * 16
NOWHERE = "nowhere"
KEPT = ("error_code", "diverging_epoch")


class Row(NamedTuple):
    """One requested partition."""

    topic: str
    partition: int = 0
    offset: int = 0
    current_epoch: int = -1
    fetched_epoch: int = -1


class Case(NamedTuple):
    """`waits`: what Apache Kafka does beside a quiet partition, which only chooses max_wait."""

    name: str
    row: Row
    waits: bool


CASES = (
    Case("nothing new", Row(OTHER), waits=True),
    Case("unknown topic", Row(NOWHERE), waits=True),
    Case("unknown partition", Row(OTHER, 9), waits=True),
    Case("negative partition", Row(OTHER, -1), waits=True),
    Case("topic that may not be read", Row(SECRET), waits=True),
    Case("offset beyond the end", Row(OTHER, offset=99), waits=False),
    Case("negative offset", Row(OTHER, offset=-5), waits=False),
    Case("other broker's partition", Row(ELSEWHERE), waits=False),
    Case("old leader epoch", Row(EPOCHS, current_epoch=LEADER_EPOCH - 2), waits=False),
    Case("future leader epoch", Row(EPOCHS, current_epoch=LEADER_EPOCH + 2), waits=False),
    Case("log that diverges", Row(EPOCHS, current_epoch=LEADER_EPOCH, fetched_epoch=LEADER_EPOCH - 1), waits=False),
)


class Asked(NamedTuple):
    """How a case is asked."""

    case: Case
    version: int
    session: str
    reader: int
    beside: bool

    @property
    def name(self) -> str:
        reader = "consumer" if self.reader == CONSUMER else "follower"
        return f"{self.case.name}, v{self.version}, {self.session}, {reader}, {'beside' if self.beside else 'alone'}"


def all_asked(versions: tuple[int, ...]) -> Iterator[Asked]:
    for case in CASES:
        for version in versions:
            if (case.row.current_epoch >= 0 and version < 9) or (case.row.fetched_epoch >= 0 and version < 12):
                continue
            for session in ("no session", "new session", "later in a session"):
                if session != "no session" and version < 7:
                    continue
                for reader in (CONSUMER, GONE):
                    yield from (Asked(case, version, session, reader, beside) for beside in (True, False))


def play(broker: Broker, asked: list[Asked], ids: Mapping[str, bytes]) -> dict[str, Any]:
    """Ask all of them, each on a connection of its own, and tell which answers came at once."""
    with ThreadPoolExecutor(48) as pool:
        found = pool.map(lambda one: _played(broker, one, ids), asked)
        names = {topic_id: name for name, topic_id in ids.items()}
        return {
            one.name: answer if isinstance(answer, str) else {**answer, "answer": essence(answer["answer"], names)}
            for one, answer in zip(asked, found, strict=True)
        }


def _played(broker: Broker, asked: Asked, ids: Mapping[str, bytes]) -> Any:
    rows = [asked.case.row, Row(QUIET)] if asked.beside else [asked.case.row]
    is_quiet = asked.case.name == "nothing new"
    wait_ms = SHORT_MS if is_quiet or (asked.beside and asked.case.waits) else LONG_MS
    conversation = Conversation(broker.host, broker.port, broker.definitions, patience_s=30)
    reader = Reader(conversation, asked.version, asked.reader, ids)
    try:
        if asked.session == "no session":
            return reader.fetch(rows, wait_ms, epoch=NO_SESSION)
        if asked.session == "new session":
            return reader.fetch(rows, wait_ms, epoch=NEW_SESSION)
        made = reader.fetch(rows, 0, epoch=NEW_SESSION)["answer"]
        if not made["session_id"]:
            return "there is no session"
        return reader.fetch([], wait_ms, session_id=made["session_id"], epoch=1)
    finally:
        conversation.close()


def essence(answer: Any, names: Mapping[bytes, str]) -> Any:
    """What of an answer says how its reader goes on: errors, where logs diverge, and the session."""
    if not isinstance(answer, dict):
        return answer
    rows = {}
    for topic in answer["responses"]:
        name = topic["topic"] if "topic" in topic else names.get(topic["topic_id"], NOWHERE)
        for row in topic["partitions"]:
            kept = {key: row[key] for key in KEPT if row.get(key)}
            rows[f"{name}-{row['partition_index']}"] = kept
    return {"error_code": answer.get("error_code", 0), "has session": bool(answer.get("session_id")), "rows": rows}


class Reader:
    """A consumer or a follower on one connection."""

    def __init__(self, conversation: Conversation, version: int, replica: int, ids: Mapping[str, bytes]) -> None:
        self._conversation = conversation
        self.version = version
        self._replica = replica
        self._ids = ids

    def fetch(self, rows: list[Row], wait_ms: int, *, epoch: int = NO_SESSION, session_id: int = 0, **more: Any) -> Any:
        """The answer, and whether it came only when the time was over."""
        began = time.monotonic()
        number = self.send(rows, wait_ms, epoch=epoch, session_id=session_id, **more)
        answer = self._conversation.receive("Fetch", self.version, number)
        took = time.monotonic() - began
        # Event loops round their timers, by less than a millisecond.
        return {"answer": answer, "waited": took >= 0.9 * wait_ms / 1000 > 0}

    def during(self, rows: list[Row], wait_ms: int, happens: Callable[[], None], **how: Any) -> Any:
        """As `fetch`; something happens while it waits."""
        began = time.monotonic()
        number = self.send(rows, wait_ms, **how)
        happens()
        answer = self._conversation.receive("Fetch", self.version, number)
        return {"answer": answer, "waited": time.monotonic() - began >= 0.9 * wait_ms / 1000}

    def send(self, rows: list[Row], wait_ms: int, *, epoch: int = NO_SESSION, session_id: int = 0, **more: Any) -> int:
        fields: Values = {"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": ROOMY, **more}
        if self.version >= 15:
            if self._replica != CONSUMER:
                fields["replica_state"] = {"replica_id": self._replica, "replica_epoch": -1}
        else:
            fields["replica_id"] = self._replica
        if self.version >= 7:
            fields |= {"session_id": session_id, "session_epoch": epoch}
        return self._conversation.send("Fetch", self.version, topics=[self._topic(row) for row in rows], **fields)

    def _topic(self, row: Row) -> Values:
        partition: Values = {"partition": row.partition, "fetch_offset": row.offset, "partition_max_bytes": ROOMY}
        if self.version >= 9:
            partition["current_leader_epoch"] = row.current_epoch
        if self.version >= 12:
            partition["last_fetched_epoch"] = row.fetched_epoch
        if self.version >= BY_ID:
            return {"topic_id": self._ids.get(row.topic, UNKNOWN_ID), "partitions": [partition]}
        return {"topic": row.topic, "partitions": [partition]}
