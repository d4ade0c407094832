"""Input files named on the command line, opened through the disk port."""

from __future__ import annotations

from sordini.admin.failure import Failure
from sordini.protocol.printable import not_utf8
from sordini.storage.disk import File, SystemDisk

CSV_BYTES_MAX = 64 * 1024 * 1024


def open_file(path: str) -> File:
    """Open a file to be read. Raises Failure."""
    disk = SystemDisk()
    try:
        if disk.is_directory(path):
            raise Failure(f"{path}: this is a directory")
        return disk.open(path, writable=False)
    except OSError as error:
        raise Failure(f"{path}: {(error.strerror or str(error)).lower()}") from None


def read_text(path: str) -> str:
    """A whole, small file of text. Raises Failure."""
    file = open_file(path)
    try:
        if file.size() > CSV_BYTES_MAX:
            raise Failure(f"{path}: more than {CSV_BYTES_MAX} bytes")
        return file.read_at(0, file.size()).decode()
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: {not_utf8(error)}") from None
    except OSError as error:
        raise Failure(f"{path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        file.close()
