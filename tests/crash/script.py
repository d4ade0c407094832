"""The scripts of a campaign: the operations on a store, its faults, and the state after a crash.

A script is drawn from its seed alone. A step names an operation and a number, from which the operation draws whatever
else it needs, so that a step can be left out without changing the others.
"""

from __future__ import annotations

import errno
import random
from typing import NamedTuple

from sordini.storage.log_config import NEVER, LogConfig
from sordini.storage.store_config import StoreConfig

STEPS_MAX = 26
INCARNATIONS_MAX = 3

# Operation -> how often, out of all.
OPERATIONS = {
    "append": 40,
    "append_several": 8,
    "transaction": 12,
    "end_transaction": 9,
    "resend": 3,
    "flush": 8,
    "flush_beside": 4,
    "roll": 4,
    "truncate": 4,
    "rewrite": 3,
    "crowd": 2,
    "delete_records": 3,
    "retain": 3,
    "tick": 12,
    "snapshot": 1,
    "new_epoch": 3,
    "read": 3,
    "delete": 2,
    "recreate": 4,
}
BREAKING = (errno.EIO, errno.EIO, errno.EROFS)
PASSING = (errno.ENOSPC, errno.ENOSPC, errno.EDQUOT, errno.EMFILE)


class Strike(NamedTuple):
    """What happens at the `call`-th call of an operation: "fail" or "look" with an error number, "full", "short"."""

    kind: str
    call: int
    errno: int = 0

    def __str__(self) -> str:
        return f"{self.kind} at call {self.call} {errno.errorcode.get(self.errno, '')}".rstrip()


class Step(NamedTuple):
    """One operation on one partition."""

    operation: str
    partition: int
    chance: int
    strike: Strike | None = None

    def __str__(self) -> str:
        struck = "" if self.strike is None else f"  <- {self.strike}"
        return f"{self.operation} {self.partition} #{self.chance}{struck}"


class Death(NamedTuple):
    """The end of a process: inside the `call`-th change of its last step, or of the next start."""

    call: int
    share: float
    """How much of a write that is struck is done."""
    power: bool
    """Whether the power fails, too; else only the process is killed."""
    kept: int
    """The seed of what is kept then."""

    def __str__(self) -> str:
        how = f"power loss, kept #{self.kept}" if self.power else "kill -9"
        return f"crashes at call {self.call}, {self.share:.1f} of it done: {how}"


class Incarnation(NamedTuple):
    """One process: its steps, how it ends, and what strikes the starts after it."""

    steps: tuple[Step, ...]
    closes: bool
    """Whether it gets a stop before it is killed."""
    close_strike: Strike | None
    death: Death | None
    starts: tuple[Death | Strike, ...]

    def __str__(self) -> str:
        lines = [f"  {step}" for step in self.steps]
        if self.closes:
            lines.append("  close" + ("" if self.close_strike is None else f"  <- {self.close_strike}"))
        lines.append(f"  {self.death}" if self.death is not None else "  ends")
        return "\n".join([*lines, *(f"  start  <- {strike}" for strike in self.starts)])


class Script(NamedTuple):
    """A whole run."""

    seed: int
    config: LogConfig
    store: StoreConfig
    directories: int
    partitions: int
    incarnations: tuple[Incarnation, ...]

    def __str__(self) -> str:
        changed = {
            name: value
            for settings in (self.config, self.store)
            for name, value in settings._asdict().items()
            if value != settings._field_defaults[name]
        }
        head = f"seed {self.seed}: {self.directories} directories, {self.partitions} partitions, {changed}"
        return "\n".join(
            [head, *(f"incarnation {number}\n{incarnation}" for number, incarnation in enumerate(self.incarnations, 1))]
        )


def draw(seed: int) -> Script:
    """The script of a seed."""
    chance = random.Random(f"script {seed}")
    partitions = chance.choice((1, 1, 2, 3))
    directories = chance.choice((1, 1, 2))
    incarnations = tuple(_incarnation(chance, partitions) for _ in range(chance.randint(1, INCARNATIONS_MAX)))
    return Script(seed, _config(chance), _store(chance), directories, partitions, incarnations)


def _config(chance: random.Random) -> LogConfig:
    return LogConfig(
        segment_bytes=chance.choice((500, 700, 1500, 4000)),
        segment_ms=chance.choice((2_500, 10**9, 10**9)),
        segment_index_bytes=chance.choice((24, 48, 64, 256, 1024)),
        index_interval_bytes=chance.choice((0, 100, 150, 400)),
        retention_ms=chance.choice((-1, -1, -1, 6_000)),
        retention_bytes=chance.choice((-1, -1, -1, 1_500)),
        file_delete_delay_ms=chance.choice((0, 1_000, 3_000)),
        flush_messages=chance.choice((NEVER, NEVER, NEVER, 1, 3, 10)),
        flush_ms=chance.choice((NEVER, NEVER, 1_000, 3_000)),
        producer_expiration_ms=2**62,
    )


def _store(chance: random.Random) -> StoreConfig:
    return StoreConfig(chance.choice((2, 3, 8, 64)), *(chance.choice((1_000, 1_000, 4_000)) for _ in range(5)))


def _incarnation(chance: random.Random, partitions: int) -> Incarnation:
    names, weights = list(OPERATIONS), list(OPERATIONS.values())
    faulty = chance.random() < 0.4
    steps = tuple(
        Step(
            operation,
            chance.randrange(partitions),
            chance.getrandbits(32),
            _strike(chance) if faulty and chance.random() < 0.1 else None,
        )
        for operation in chance.choices(names, weights, k=chance.randint(3, STEPS_MAX))
    )
    closes = chance.random() < 0.25
    close_strike = _strike(chance) if closes and faulty and chance.random() < 0.5 else None
    death = None if closes and chance.random() < 0.4 else _death(chance)
    starts = []
    while len(starts) < 3 and chance.random() < 0.3:
        starts.append(_death(chance) if chance.random() < 0.8 else _strike(chance))
    return Incarnation(steps, closes, close_strike, death, tuple(starts))


def _strike(chance: random.Random) -> Strike:
    kind = chance.choice(("fail", "fail", "full", "short", "look"))
    call = min(1 + int(chance.expovariate(0.25)), 30)
    if kind == "short":
        # The first write is the record's own, as a rule.
        return Strike(kind, chance.choice((1, 1, call)))
    if kind == "fail":
        return Strike(kind, call, chance.choice(BREAKING + PASSING))
    if kind == "full":
        return Strike(kind, call, chance.choice((errno.ENOSPC, errno.ENOSPC, errno.EIO)))
    return Strike(kind, call, chance.choice((errno.EMFILE, errno.EIO)))


def _death(chance: random.Random) -> Death:
    call = min(1 + int(chance.expovariate(0.15)), 60)
    return Death(call, chance.choice((0.0, 0.3, 0.5, 1.0)), chance.random() < 0.65, chance.getrandbits(32))
