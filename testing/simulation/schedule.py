"""The faults of a run, drawn from its seed before it begins: a list to be printed, shortened and repeated. Pure."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

from sordini.system.named_tuple import NamedTuple


class FaultKind(StrEnum):
    """What can be done to brokers, links and applications."""

    CRASH_BROKER = "crash_broker"
    """Killed; started again later. The coordination store notices it after the session timeout."""
    STOP_BROKER = "stop_broker"
    """Stopped as operators do, its leaderships are handed over; started again later."""
    PAUSE_BROKER = "pause_broker"
    """Nothing of it runs for a while; if that is long, its session expires."""
    CUT_BROKER = "cut_broker"
    """It and the other brokers do not reach each other."""
    EXPIRE_SESSION = "expire_session"
    """Its session with the coordination store expires, although it runs."""
    SLOW_DISK = "slow_disk"
    """Each synchronisation of its disk takes up to three seconds more."""
    CUT_APP = "cut_app"
    """An instance of the application and one broker do not reach each other."""
    RESET_APP = "reset_app"
    """All connections of an instance are reset."""
    SLOW_APP_LINK = "slow_app_link"
    """What an instance and the brokers send each other arrives late, as after lost packets."""
    CRASH_APP = "crash_app"
    """An instance is killed, without a `finally` of it being run; started again later."""
    STOP_APP = "stop_app"
    """An instance is cancelled, as `asyncio.run` does at SIGINT; started again later."""
    PAUSE_APP = "pause_app"
    """Nothing of an instance runs for a while."""


ALL: Final = tuple(FaultKind)
BROKERS: Final = (
    FaultKind.CRASH_BROKER,
    FaultKind.STOP_BROKER,
    FaultKind.PAUSE_BROKER,
    FaultKind.CUT_BROKER,
    FaultKind.EXPIRE_SESSION,
    FaultKind.SLOW_DISK,
)
"""Faults of the cluster."""
LINKS: Final = (FaultKind.CUT_APP, FaultKind.RESET_APP, FaultKind.SLOW_APP_LINK)
"""Faults between the application and the cluster."""
APPS: Final = (FaultKind.CRASH_APP, FaultKind.STOP_APP, FaultKind.PAUSE_APP)
"""Faults of the application's instances."""
MEAN_GAP_S: Final = 6.0
QUIET_S: Final = 4.0
"""No fault comes earlier: the application starts."""
SECONDS: Final = {
    FaultKind.CRASH_BROKER: (0.2, 15.0),
    FaultKind.STOP_BROKER: (0.2, 10.0),
    FaultKind.PAUSE_BROKER: (0.5, 12.0),
    FaultKind.CUT_BROKER: (0.5, 15.0),
    FaultKind.EXPIRE_SESSION: (0.0, 0.0),
    FaultKind.SLOW_DISK: (1.0, 10.0),
    FaultKind.CUT_APP: (0.5, 20.0),
    FaultKind.RESET_APP: (0.0, 0.0),
    FaultKind.SLOW_APP_LINK: (0.1, 5.0),
    FaultKind.CRASH_APP: (0.05, 8.0),
    FaultKind.STOP_APP: (0.05, 8.0),
    FaultKind.PAUSE_APP: (0.5, 15.0),
}
"""How long each lasts, at least and at most."""


class Fault(NamedTuple):
    """One fault."""

    at_s: float
    """Seconds after the applications were started."""
    kind: FaultKind
    broker: int
    """Which broker, where the fault has one."""
    instance: int
    """Which instance of the application, where the fault has one."""
    seconds: float
    """How long it lasts."""

    @property
    def target(self) -> str:
        """What is struck: `broker-2`, `app-1`, or `app-1 and broker-2`."""
        if self.kind in BROKERS:
            return f"broker-{self.broker}"
        return f"app-{self.instance} and broker-{self.broker}" if self.kind in LINKS[:1] else f"app-{self.instance}"

    def text(self) -> str:
        """For people: `12.300 s crash_broker broker-2 for 3.1 s`."""
        lasting = f" for {self.seconds:.3f} s" if self.seconds else ""
        return f"{self.at_s:8.3f} s {self.kind} {self.target}{lasting}"


def draw(seed: int, kinds: Collection[str], duration_s: float, brokers: int, instances: int) -> list[Fault]:
    """The faults of a seed, in the order of their times. Raises ValueError for a kind that does not exist."""
    allowed = sorted(map(FaultKind, kinds))
    source = random.Random(f"schedule {seed}")
    # Some seeds have few faults, some many; and one that has few kinds strikes these more often.
    gap_s = MEAN_GAP_S * source.choice((0.5, 1.0, 2.0))
    if len(allowed) > 2 and source.random() < 0.5:
        allowed = source.sample(allowed, source.randint(1, len(allowed)))
    found: list[Fault] = []
    at_s = QUIET_S
    while allowed:
        at_s += source.expovariate(1 / gap_s)
        if at_s >= duration_s:
            break
        kind = source.choice(allowed)
        least, most = SECONDS[kind]
        # Half of them are short.
        seconds = min(least + source.random() * (most - least) * source.choice((0.2, 1.0)), duration_s - at_s)
        found.append(
            Fault(round(at_s, 3), kind, source.randint(1, brokers), source.randint(1, instances), round(seconds, 3))
        )
    return found


def schedule_text(faults: Sequence[Fault]) -> str:
    """As Python, to be given to `simulate(schedule=...)`."""
    lines = [
        f"    Fault({fault.at_s}, {str(fault.kind)!r}, broker={fault.broker}, instance={fault.instance}, "
        f"seconds={fault.seconds}),"
        for fault in faults
    ]
    return "\n".join(["[", *lines, "]"]) if lines else "[]"
