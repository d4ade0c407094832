"""What the coordinator's shell needs of the world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from sordini.broker.clock import Clock
from sordini.broker.network.ports import Log
from sordini.storage.log_dir_handle import Randomness


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Takes seconds, as the loop's own does."""

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Ports(NamedTuple):
    """The world, as the coordinator sees it."""

    clock: Clock
    call_later: CallLater
    spawn: Spawn
    randomness: Randomness
    log: Log
