"""How a part of the broker starts a task: the server owns it, and a failure of the task is the server's failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
