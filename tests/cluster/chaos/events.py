"""What happened in a run, as JSON lines: one for each finished call, fault and look at the cluster.

Times are CLOCK_MONOTONIC in seconds, which all processes of a machine share. A partition is written as `topic-3`. A
call that was not answered in time is `info`: it may have happened or not. Values are unique, and a value never holds
a space: what a producer appends to make a record longer comes after one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"


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


class Txn(NamedTuple):
    """One transaction: `state` is committed, aborted or unknown."""

    id: str
    state: str
    vs: list[str]


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
    """What a broker that leads says of itself; asked in this order: high watermark, log end."""

    node: int
    tp: str
    epoch: int
    hw: int
    leo: int
    t: float


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


KINDS: Final[dict[str, Any]] = {
    one.__name__.lower(): one
    for one in (
        *(Send, Poll, Txn, Commit, Own, Committed, Hw, State, Fault),
        *(Outage, LastRead, Dump, Files, Stopped, Found, Full),
    )
}


class History:
    """All events of a run, by kind, in the order of their lines."""

    def __init__(self, events: Iterable[NamedTuple] = ()) -> None:
        self.sends: list[Send] = []
        self.polls: list[Poll] = []
        self.txns: list[Txn] = []
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
        for event in events:
            self.add(event)

    def add(self, event: NamedTuple) -> None:
        getattr(self, f"{type(event).__name__.lower()}s").append(event)

    @property
    def acknowledged(self) -> list[Send]:
        return [one for one in self.sends if one.result == OK]

    @property
    def last(self) -> dict[str, list[tuple[int, str]]]:
        """What is there in the end, by partition."""
        return {one.tp: one.recs for one in self.lastreads}


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
    if isinstance(event, Files):
        return event._replace(epochs=[(epoch, start) for epoch, start in event.epochs])
    return event
