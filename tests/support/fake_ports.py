"""Fakes of the broker's ports: clock, log, page cache, files and slices, and a network without connections."""

import errno
import os


class StillClock:
    """A clock that moves only when a test sets `ms`."""

    def __init__(self):
        self.ms = 1_000_000

    def now_ms(self):
        return self.ms

    def monotonic_ms(self):
        return self.ms


class ListLog:
    """Log lines as (level, event, fields)."""

    def __init__(self):
        self.lines = []
        self.level = "info"

    def __getattr__(self, level):
        return lambda event, **fields: self.lines.append((level, event, fields))

    def at(self, level):
        return [(event, fields) for found, event, fields in self.lines if found == level]


class WarmCache:
    """A page cache in which every range is warm, unless `is_cold` is set."""

    def __init__(self):
        self.is_cold = False
        self.warmed = []
        self.gate = None

    def is_warm(self, file, position, size):
        return not self.is_cold

    async def warm(self, file, position, size):
        self.warmed.append((position, size))
        if self.gate is not None:
            await self.gate.wait()


class FakeFile:
    """An open file with what the network uses of it."""

    def __init__(self, path, content=b""):
        path.write_bytes(content)
        self.path = str(path)
        self.descriptor = os.open(path, os.O_RDWR)

    def fileno(self):
        if self.descriptor < 0:
            raise OSError(errno.EBADF, "closed")
        return self.descriptor

    def size(self):
        return 0 if self.descriptor < 0 else os.lseek(self.descriptor, 0, os.SEEK_END)

    def read_at(self, position, size):
        return os.pread(self.fileno(), size, position)

    def newest(self, position, size):
        return None

    def close(self):
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class FakeSlice:
    """A slice that counts its releases."""

    def __init__(self, file, position, size):
        self.file, self.position, self.size = file, position, size
        self.released = 0

    def release(self):
        self.released += 1
        assert self.released == 1, "released twice"


class UnconnectedNetwork:
    """A network whose listeners never have a connection."""

    def listen(self, host, port, options):
        return [UnconnectedListener((host, port))]


class UnconnectedListener:
    """A listening socket without a descriptor."""

    def __init__(self, address):
        self.address = address

    def close(self):
        pass
