"""Reads cold ranges of files into the page cache with a thread, before they are sent.

`sendfile` on a page that is not in memory waits for the disk and stops every connection of the process. So each
window is probed first by a read that does not wait (`preadv` with RWF_NOWAIT), and read by a thread if it is cold.
A probe reads single bytes, about one every 64 KiB and the last: the kernel reads and evicts pages in runs, and
reading every byte would make the copy that sendfile avoids. No probe is needed for the range last found warm, nor for
the newest bytes of a file that was written moments ago.

Where the call is not supported (EOPNOTSUPP on tmpfs and overlayfs), anything but the newest bytes is read by a thread
once, and then assumed to be warm for a while.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from sordini.replication.ports import Clock
from sordini.storage.disk import File
from sordini.system.files import READ_NOWAIT

PROBE_STEP_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 256 * 1024
READ_AHEAD_BYTES: Final = 1024 * 1024
_NEAR_BYTES: Final = 16 * 1024
"""No sample is read this near to the last one: batches are often a little larger than 64 KiB."""
NEWEST_BYTES: Final = 1024 * 1024
NEWEST_MS: Final = 10_000
"""Bytes this near to the end of a file that was written this recently are assumed to be warm."""

STAT_BYTES_MIN: Final = 16 * 1024
"""Below this size a probe costs no more than fstat, which gives the file's age."""

WARM_MS: Final = 2_000
"""How long a range that was found warm is assumed to stay so."""

_FILES_MAX: Final = 1024
_REFUSED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

Offload = Callable[[Callable[[], int]], Awaitable[int]]


class SystemPageCache:
    """The kernel's page cache. `offload` runs a function in a thread (`Disk.offload`)."""

    def __init__(self, clock: Clock, offload: Offload) -> None:
        self._clock = clock
        self._offload = offload
        self._may_probe = READ_NOWAIT is not None
        self._scratch = [bytearray(1)]
        # File -> [start, end) of one warm range, and when it expires. The oldest entry is evicted first.
        self._warm: OrderedDict[File, tuple[int, int, int]] = OrderedDict()
        self.probes = 0
        self.misses = 0

    def is_warm(self, file: File, position: int, size: int) -> bool:
        """Whether this range can be sent without waiting for the disk. Never raises: the send finds errors."""
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
        """Whether a range that ends at `end` was written moments ago."""
        if end + NEWEST_BYTES <= file.size():
            return False
        try:
            status = os.fstat(file.fileno())
        except OSError:
            return True
        age_ms = self._clock.now_ms() - status.st_mtime_ns // 1_000_000
        return age_ms < NEWEST_MS

    def _probe(self, file: File, position: int, size: int) -> bool:
        """Whether samples of the range can be read without waiting."""
        assert READ_NOWAIT is not None
        self.probes += 1
        last = position + size - 1
        try:
            descriptor = file.fileno()
            if last > position:
                os.preadv(descriptor, self._scratch, position, READ_NOWAIT)
            for sample in range(position + PROBE_STEP_BYTES, last - _NEAR_BYTES, PROBE_STEP_BYTES):
                os.preadv(descriptor, self._scratch, sample, READ_NOWAIT)
            os.preadv(descriptor, self._scratch, last, READ_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _REFUSED:
                self._may_probe = False
                return False
        return True

    def _remember(self, file: File, start: int, end: int) -> None:
        """Merge the range with the known one when they touch; the merged range expires with the older one."""
        now_ms = self._clock.monotonic_ms()
        expires_ms = now_ms + WARM_MS
        known = self._warm.pop(file, None)
        if known is not None and known[0] <= start <= known[1] and now_ms < known[2]:
            start, expires_ms = known[0], known[2]
        self._warm[file] = (start, max(end, start), expires_ms)
        if len(self._warm) > _FILES_MAX:
            self._warm.popitem(last=False)


def _read(file: File, position: int, size: int) -> int:
    """Read a range into the page cache; returns how many bytes could be read. In a thread: only system calls."""
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
