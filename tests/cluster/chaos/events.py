"""What happened in a run, as JSON lines: one for each finished call, fault and look at the cluster.

Times are CLOCK_MONOTONIC in seconds, which all processes of a machine share. A partition is written as `topic-3`. A
call that was not answered in time is `info`: it may have happened or not. Values are unique, and a value never holds
a space: what a producer appends to make a record longer comes after one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
OPEN: Final = "open"
COMMITTING: Final = "committing"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
UNKNOWN: Final = "unknown"


class Send(NamedTuple):
    """One record. `pid` is one life of a producer, `seq` the order in which it sent."""

    pid: str
    t0: float
    t1: float
    tp: str
    v: str
    off: int
    result: str
    seq: int
    idempotent: bool


class Poll(NamedTuple):
    """Records that a consumer was given between two times, in order; `session` is one assignment of it."""

    session: str
    t0: float
    t1: float
    tp: str
    recs: list[tuple[int, str]]


class Began(NamedTuple):
    """A transactional id was initialised for one life of a producer: from `t1` on its former lives are fenced."""

    producer: str
    pid: str
    t0: float
    t1: float


class Txn(NamedTuple):
    """The state of one transaction from `t` on: open, committing (the commit is requested), committed or aborted.

    The last of an id counts. `recs` are partition, offset (-1 if it is not known) and value of each record.
    """

    id: str
    state: str
    recs: list[tuple[str, int, str]]
    producer: str
    pid: str
    t: float


class Transaction(NamedTuple):
    """What became of one transaction; `asked` is when its commit was requested, infinite if it never was.

    A transaction whose commit was not requested is aborted, whether its producer did that or was killed.
    """

    id: str
    outcome: str
    recs: list[tuple[str, int, str]]
    producer: str
    pid: str
    began: float
    asked: float
    ended: float


class Late(NamedTuple):
    """EndTxn of a former transaction that arrived while `open` was; `code` is its answer, -1 for none."""

    open: str
    code: int
    t: float


class Tried(NamedTuple):
    """One attempt of an unauthorized client: how it connected (`way`) and what it requested.

    `code` is the error of the response, and 0 is a breach: the request was served. -1: the connection was closed, or
    the login refused.
    """

    way: str
    what: str
    code: int
    t: float


class Stable(NamedTuple):
    """A partition's last stable offset and its high watermark, when all transactions had ended or timed out."""

    tp: str
    lso: int
    end: int


class Commit(NamedTuple):
    """A group's offset of one partition, committed by a member of a generation; `result` as of a send."""

    group: str
    t0: float
    t1: float
    tp: str
    off: int
    gen: int
    member: str
    result: str


class Own(NamedTuple):
    """What a member was given in a generation."""

    group: str
    t: float
    gen: int
    member: str
    tps: list[str]


class Committed(NamedTuple):
    """The group's offset at the end, -1 for none."""

    group: str
    tp: str
    off: int


class Hw(NamedTuple):
    """What a leader says of itself; requested in this order: last stable offset, high watermark, log end."""

    node: int
    tp: str
    epoch: int
    hw: int
    leo: int
    t: float
    lso: int


class State(NamedTuple):
    """A partition's state node, as it was when it was read."""

    tp: str
    leader: int
    epoch: int
    isr: list[int]
    version: int
    t: float


class Fault(NamedTuple):
    """One fault; between `t1` and the next fault all is as it should be."""

    kind: str
    t0: float
    t1: float
    detail: str


class Outage(NamedTuple):
    """ZooKeeper was away from all brokers between two times; `hit` are the brokers that were killed meanwhile."""

    way: str
    t0: float
    t1: float
    hit: list[int]


class LastRead(NamedTuple):
    """One partition read from its beginning to its end when all was quiet."""

    tp: str
    recs: list[tuple[int, str]]


class Dump(NamedTuple):
    """One batch in a stopped broker's files. `end` is the first offset after it."""

    node: int
    tp: str
    base: int
    end: int
    epoch: int
    crc: int
    vs: list[str]


class Files(NamedTuple):
    """What else a stopped broker has of a partition: its checkpointed high watermark and its epoch cache."""

    node: int
    tp: str
    hw: int
    epochs: list[tuple[int, int]]


class Stopped(NamedTuple):
    """What a killed broker left: a digest of all batches that end at or below its checkpointed high watermark."""

    node: int
    tp: str
    t: float
    hw: int
    digest: str


class Found(NamedTuple):
    """Something that was seen to be wrong on the spot."""

    law: str
    detail: str


class Full(NamedTuple):
    """Seconds from the last heal until every partition had all replicas in sync; -1: not in time."""

    seconds: float


class Load(NamedTuple):
    """How many cores all processes of the run kept busy on average while the clients worked."""

    cores: float


KINDS: Final[dict[str, Any]] = {
    one.__name__.lower(): one
    for one in (
        *(Send, Poll, Began, Txn, Late, Tried, Stable, Commit, Own, Committed, Hw, State, Fault),
        *(Outage, LastRead, Dump, Files, Stopped, Found, Full, Load),
    )
}


class History:
    """All events of a run, by kind, in the order of their lines."""

    def __init__(self, events: Iterable[NamedTuple] = ()) -> None:
        self.sends: list[Send] = []
        self.polls: list[Poll] = []
        self.begans: list[Began] = []
        self.txns: list[Txn] = []
        self.lates: list[Late] = []
        self.trieds: list[Tried] = []
        self.stables: list[Stable] = []
        self.commits: list[Commit] = []
        self.owns: list[Own] = []
        self.committeds: list[Committed] = []
        self.hws: list[Hw] = []
        self.states: list[State] = []
        self.faults: list[Fault] = []
        self.outages: list[Outage] = []
        self.lastreads: list[LastRead] = []
        self.dumps: list[Dump] = []
        self.filess: list[Files] = []
        self.stoppeds: list[Stopped] = []
        self.founds: list[Found] = []
        self.fulls: list[Full] = []
        self.loads: list[Load] = []
        for event in events:
            self.add(event)

    def add(self, event: NamedTuple) -> None:
        getattr(self, f"{type(event).__name__.lower()}s").append(event)

    @property
    def acknowledged(self) -> list[Send]:
        return [one for one in self.sends if one.result == OK]

    @cached_property
    def transactions(self) -> list[Transaction]:
        """Each with its outcome, in the order in which they began."""
        states: dict[str, list[Txn]] = {}
        for one in self.txns:
            states.setdefault(one.id, []).append(one)
        return sorted((_outcome(rows) for rows in states.values()), key=lambda one: one.began)

    @cached_property
    def written(self) -> list[Send]:
        """All records that were sent, those of transactions, too: these are acknowledged when they are committed."""
        sequences: Counter[str] = Counter()
        found = list(self.sends)
        for one in self.transactions:
            result = OK if one.outcome == COMMITTED else INFO
            for tp, offset, value in one.recs:
                sequences[one.pid] += 1
                found.append(Send(one.pid, one.began, one.ended, tp, value, offset, result, sequences[one.pid], True))
        return found

    @property
    def acknowledged_count(self) -> int:
        """Records that were acknowledged, or committed in a transaction."""
        return sum(one.result == OK for one in self.written)

    @property
    def last(self) -> dict[str, list[tuple[int, str]]]:
        """What is there in the end, by partition."""
        return {one.tp: one.recs for one in self.lastreads}


def _outcome(states: list[Txn]) -> Transaction:
    """Of the states of one transaction, in their order."""
    first, last = states[0], states[-1]
    asked = next((one.t for one in states if one.state == COMMITTING), inf)
    outcome = last.state
    if outcome in (OPEN, COMMITTING):
        outcome = ABORTED if asked == inf else UNKNOWN
    return Transaction(first.id, outcome, last.recs, first.producer, first.pid, first.t, asked, last.t)


class Recorder:
    """Appends events to a file, one line each."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", encoding="utf-8", buffering=1 << 16)

    def note(self, event: NamedTuple) -> None:
        line = {"k": type(event).__name__.lower(), **event._asdict()}
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read(paths: Iterable[Path]) -> Iterator[NamedTuple]:
    """The events of some files; a last line that was cut short by a kill is left out."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    break
                fields = json.loads(line)
                made = KINDS[fields.pop("k")]
                yield _with_pairs(made(**fields))


def _with_pairs(event: Any) -> Any:
    """JSON has no tuples; equal values must be equal whichever way they came."""
    if isinstance(event, Poll | LastRead):
        return event._replace(recs=[(offset, value) for offset, value in event.recs])
    if isinstance(event, Txn):
        return event._replace(recs=[(tp, offset, value) for tp, offset, value in event.recs])
    if isinstance(event, Files):
        return event._replace(epochs=[(epoch, start) for epoch, start in event.epochs])
    return event
