"""A program: an empty file system of any `fuse.` type at a directory, for one command.

    unshare -m python fuse_mount.py DIRECTORY fuse.sshfs COMMAND...

The kernel reports the type as of a real one, and this process answers what the kernel asks of it (`linux/fuse.h`), as
the file system's own program would. It ends with the command and has its status.

    request    length: 4 | opcode: 4 | unique: 8 | node: 8 | user, group, process: 12 | extensions: 4 | body
    answer     length: 4 | -errno: 4 | unique: 8 | body
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading

REQUEST, ANSWER = struct.Struct("<IIQ"), struct.Struct("<IiQ")
REQUEST_BYTES_MAX = 1 << 18
GETATTR, STATFS, INIT, OPENDIR, READDIR, RELEASEDIR = 3, 17, 26, 27, 28, 29
UNANSWERED = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET.
LOOKUP = 1
MAJOR, MINOR = 7, 31
FREE_BLOCKS, BLOCK_BYTES = 1 << 26, 4096


def attributes() -> bytes:
    """Of the one node, a directory that everyone may use."""
    valid = struct.pack("<QII", 3600, 0, 0)
    sizes_and_times = struct.pack("<6Q3I", 1, 0, 0, 0, 0, 0, 0, 0, 0)
    return valid + sizes_and_times + struct.pack("<7I", 0o040777, 2, os.getuid(), os.getgid(), 0, BLOCK_BYTES, 0)


def answers() -> dict[int, bytes]:
    """By the opcode; what is missing is answered by an error."""
    space = struct.pack("<5Q4I24x", FREE_BLOCKS, FREE_BLOCKS, FREE_BLOCKS, 1 << 20, 1 << 20, BLOCK_BYTES, 255, 4096, 0)
    return {
        INIT: struct.pack("<4I2HI36x", MAJOR, MINOR, 0, 0, 8, 6, 4096),
        GETATTR: attributes(),
        STATFS: space,
        OPENDIR: struct.pack("<QII", 0, 0, 0),
        READDIR: b"",
        RELEASEDIR: b"",
    }


def serve(device: int) -> None:
    """Until it is unmounted."""
    known = answers()
    while True:
        try:
            request = os.read(device, REQUEST_BYTES_MAX)
        except OSError:
            return
        _, opcode, unique = REQUEST.unpack_from(request)
        if opcode in UNANSWERED:
            continue
        body = known.get(opcode, b"")
        error = 0 if opcode in known else errno.ENOENT if opcode == LOOKUP else errno.ENOSYS
        with contextlib.suppress(FileNotFoundError):  # The request was interrupted.
            os.write(device, ANSWER.pack(ANSWER.size + len(body), -error, unique) + body)


def main() -> int:
    directory, kind, *command = sys.argv[1:]
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40777,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"sordini-test", directory.encode(), kind.encode(), 0, options.encode()) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    threading.Thread(target=serve, args=(device,), daemon=True).start()
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
