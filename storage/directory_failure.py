"""Which failed calls take a log directory offline (KIP-112).

    a full disk, no descriptor left     the call is refused, and a retry may succeed; the directory stays online
    a call that is impossible           the call is refused; it says nothing about the disk
    anything else (EIO, EROFS, ...)     the directory can no longer be trusted: it goes offline until a restart
    a sync or a truncation that fails   as anything else, whatever the error

`LogDirHandle.classify` makes the error to raise, and takes the directory offline: from then on each of its logs raises
StorageError. `LogManager.on_offline` is called once: the broker then takes the replicas of that directory offline
(`ReplicaSet.directory_failed`) and notifies the controller, which elects other leaders
(`controller/machine/log_directories.py`); without another directory it ends.
"""

from __future__ import annotations

import errno

from sordini.storage.disk_space import DISK_FULL

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
PASSING = DISK_FULL | NO_DESCRIPTOR
"""A full disk, and no descriptor left: the call is refused, and a retry may succeed."""
REFUSED = frozenset(
    {
        errno.EBADF,
        errno.EEXIST,
        errno.EFBIG,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENOMEM,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.EOVERFLOW,
        errno.EXDEV,
    }
)
"""The call itself is impossible (a name, a size, a descriptor, or a file in the way). It is refused, and says nothing
about the disk. A sync or a truncation that fails with one of these still counts as a failed sync or truncation."""


def is_directory_failure(error: OSError) -> bool:
    """Whether a failed call means that the log directory can no longer be trusted."""
    return error.errno not in PASSING and error.errno not in REFUSED
