"""The ports of a coordinator's shell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from sordini.broker.clock import Clock
from sordini.broker.network.ports import Log
from sordini.storage.log_dir_handle import Randomness


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Takes seconds, as `loop.call_later`."""

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Ports(NamedTuple):
    """The ports that all coordinators share."""

    clock: Clock
    call_later: CallLater
    spawn: Spawn
    randomness: Randomness
    log: Log
