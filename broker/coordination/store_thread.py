"""One thread for calls that wait for the disk, in the order in which they were given.

This is the real `offload` of the embedded store; a simulation runs the calls inline instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class StoreThread:
    """A single thread, started with the first call."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def offload(self, call: Callable[[], T]) -> Awaitable[T]:
        """Run `call` on the thread; its result or exception comes back on the loop."""
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        """Let the thread end once what it was given is done. Does not wait."""
        self._threads.shutdown(wait=False)
