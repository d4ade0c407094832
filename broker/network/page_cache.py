"""Cold reads beside the loop: is a range of a file in the page cache, and if not, bring it in with a thread.

`sendfile` on a page that is not in memory waits for the disk and stops every connection of the process. So each
window is probed first by a read that refuses to wait (`preadv` with RWF_NOWAIT), and read by a thread when it would.
A probe reads single bytes, one every 64 KiB and the last: the kernel brings pages in, and drops them, in runs, and
reading all of them would copy what sendfile is there not to copy. It is left out where the answer is known or cheaper
to get: for the range that was last seen to be warm, and for the newest bytes of a file that was written moments ago.

Where the call is refused (EOPNOTSUPP on tmpfs and overlayfs), anything but the newest bytes is read by a thread
once, and then taken to be warm for a while.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from sordini.broker.clock import Clock
from sordini.storage.disk import File

PROBE_STEP_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 256 * 1024
READ_AHEAD_BYTES: Final = 1024 * 1024
NEWEST_BYTES: Final = 1024 * 1024
NEWEST_MS: Final = 10_000
"""Bytes this near to the end of a file that was written this lately are warm without being looked at."""

STAT_BYTES_MIN: Final = 16 * 1024
"""Below this size a probe costs no more than asking for the file's size and age."""

WARM_MS: Final = 2_000
"""How long a range that was seen to be warm is believed to stay so."""

_FILES_MAX: Final = 1024
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
_REFUSED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

Offload = Callable[[Callable[[], int]], Awaitable[int]]


class SystemPageCache:
    """The kernel's page cache. `offload` runs a function in a thread (`Disk.offload`)."""

    def __init__(self, clock: Clock, offload: Offload) -> None:
        self._clock = clock
        self._offload = offload
        self._may_probe = _NOWAIT is not None
        self._scratch = [bytearray(1)]
        # File -> [start, end) of one warm range, and until when it is believed. The oldest entry leaves first.
        self._warm: OrderedDict[File, tuple[int, int, int]] = OrderedDict()
        self.probes = 0
        self.misses = 0

    def is_warm(self, file: File, position: int, size: int) -> bool:
        """Whether sending this range will not wait for the disk. Never raises: the send itself finds errors."""
        end = position + size
        known = self._warm.get(file)
        if known is not None and known[0] <= position and end <= known[1] and self._clock.monotonic_ms() < known[2]:
            return True
        if (size >= STAT_BYTES_MIN or not self._may_probe) and self._is_newest(file, end):
            return True
        if self._may_probe and self._probe(file, position, size):
            self._remember(file, position, end)
            return True
        self.misses += 1
        return False

    async def warm(self, file: File, position: int, size: int) -> None:
        """Read the range, and what follows it, in a thread."""
        span = max(size, READ_AHEAD_BYTES)
        end = position + await self._offload(lambda: _read(file, position, span))
        self._remember(file, position, end)

    def _is_newest(self, file: File, end: int) -> bool:
        """Whether a range that ends there was written moments ago."""
        try:
            status = os.fstat(file.fileno())
        except OSError:
            return True
        age_ms = self._clock.now_ms() - status.st_mtime_ns // 1_000_000
        return end + NEWEST_BYTES > status.st_size and age_ms < NEWEST_MS

    def _probe(self, file: File, position: int, size: int) -> bool:
        """Whether the range can be read without waiting, as far as samples tell."""
        assert _NOWAIT is not None
        self.probes += 1
        descriptor, last = file.fileno(), position + size - 1
        try:
            for sample in range(position, last, PROBE_STEP_BYTES):
                os.preadv(descriptor, self._scratch, sample, _NOWAIT)
            os.preadv(descriptor, self._scratch, last, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _REFUSED:
                self._may_probe = False
                return False
        return True

    def _remember(self, file: File, start: int, end: int) -> None:
        """Join the range to the one that is known, when they touch; the older one's time holds for both."""
        now_ms = self._clock.monotonic_ms()
        believed_until_ms = now_ms + WARM_MS
        known = self._warm.pop(file, None)
        if known is not None and known[0] <= start <= known[1] and now_ms < known[2]:
            start, believed_until_ms = known[0], known[2]
        self._warm[file] = (start, max(end, start), believed_until_ms)
        if len(self._warm) > _FILES_MAX:
            self._warm.popitem(last=False)


def _read(file: File, position: int, size: int) -> int:
    """Read a range for the page cache's sake; the bytes that could be read. In a thread: only system calls."""
    count = 0
    while count < size:
        try:
            data = file.read_at(position + count, min(_READ_BYTES, size - count))
        except OSError:
            break
        if not data:
            break
        count += len(data)
    return count
