"""ZooKeeper taken away from all brokers: frozen, cut off by the network, or killed and started again with its data.

The brokers' sessions end in each of the three, but differently: a frozen server ends them when it goes on, one that
is cut off expires them meanwhile and deletes what they registered, one that was killed restarts their timeouts.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.cluster.chaos.events import Found, Outage
from tests.cluster.chaos.replica_laws import FULL_SECONDS_MAX
from tests.cluster.chaos.world import BROKERS, World

RETURN_SECONDS_MAX: Final = 30.0
"""From ZooKeeper's return until every broker is registered again."""
AGAIN_SECONDS: Final = 0.5
"""Between two looks at a broker that ends because it finds no ZooKeeper: a supervisor starts it again."""


@contextmanager
def frozen(world: World) -> Iterator[None]:
    process = world.zookeeper.pid
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@contextmanager
def cut_off(world: World) -> Iterator[None]:
    for broker_id in BROKERS:
        world.network.cut_both(str(broker_id), "zookeeper")
    yield
    world.network.heal()


@contextmanager
def killed(world: World) -> Iterator[None]:
    world.zookeeper.kill()
    yield
    world.zookeeper.start()


WAYS: Final[dict[str, Callable[[World], AbstractContextManager[None]]]] = {
    "frozen": frozen,
    "cut off": cut_off,
    "killed and started again": killed,
}


def without_zookeeper(world: World, chance: random.Random, seconds: float, hit: int | None) -> str:
    """Carry out a whole outage, until ZooKeeper knows all brokers again; the way it was taken.

    The broker `hit` is killed in the middle, and started again at once and whenever it ends.
    """
    way = chance.choice(list(WAYS))
    if not world.wait_for(world.is_settled, FULL_SECONDS_MAX):
        world.recorder.note(Found("I14", "not every replica was in sync before ZooKeeper was taken away"))
    with WAYS[way](world):
        began = time.monotonic()
        if hit is not None:
            time.sleep(seconds / 2)
            world.kill(hit)
        while (left := began + seconds - time.monotonic()) > 0:
            if hit is not None:
                world.launch_again(hit)
            time.sleep(min(left, AGAIN_SECONDS))
        world.recorder.note(Outage(way, began, time.monotonic(), [] if hit is None else [hit]))
    if hit is not None:
        world.wait_for(lambda: world.launch_again(hit), RETURN_SECONDS_MAX)
    if not world.wait_for(lambda: world.registered() == set(BROKERS), RETURN_SECONDS_MAX):
        world.recorder.note(
            Found("I14", f"not every broker is registered {RETURN_SECONDS_MAX:g} s after ZooKeeper's return")
        )
    return way
