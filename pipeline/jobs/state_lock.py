"""The lock of a job whose state is in an object store: an object that one run makes, renews and deletes.

    lock.json   {"run": "5f0c...", "host": "worker-3", "boot": "...", "process": 812, "until": 1795334460.0}

It is made by a put that the store refuses where the name exists, and renewed or taken over by a put that the store
refuses where it has changed. A run that ends deletes it. One that was killed leaves it, as one does whose store refused
that: a run on the same machine sees that the process, or its run, is gone and takes it over; elsewhere it expires after
LEASE_SECONDS without a renewal. A run that loses it (its machine slept) may go on until its next commit, which the
table refuses: the lock saves work, and is not what rows depend on.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

from sordini.pipeline.jobs.state_files import Conflict, StateError, StoredFile, StoreFiles
from sordini.system.machine import boot_identity, start_of_process

LOCK: Final = "lock.json"
LEASE_SECONDS: Final = 60.0
RENEW_SECONDS: Final = 15.0
_held: set[str] = set()
"""The runs of this process that hold a lock."""


@contextmanager
def held(files: StoreFiles, location: str) -> Iterator[None]:
    """Hold the lock. Raises StateError, which says which run has it."""
    run = uuid4().hex
    _held.add(run)
    try:
        _acquire(files, location, run)
        yield from _renewed(files, run)
    finally:
        _held.discard(run)


def _renewed(files: StoreFiles, run: str) -> Iterator[None]:
    """Renew the lock until what holds it has ended, and delete it."""
    over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(files, run, over), name="state lock", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()
        with suppress(StateError):
            if _is_ours(files.version(LOCK), run):
                files.delete([LOCK])


def _acquire(files: StoreFiles, location: str, run: str) -> None:
    there = files.version(LOCK)
    if there is not None and not _is_over(_parsed(there)):
        raise StateError(_refusal(location, _parsed(there)))
    try:
        files.write(LOCK, _contents(run))
    except Conflict:
        now = files.version(LOCK)
        raise StateError(_refusal(location, _parsed(now) if now else {})) from None


def _renew(files: StoreFiles, run: str, over: threading.Event) -> None:
    while not over.wait(RENEW_SECONDS):
        # A store that does not answer, or another run that has the lock: the table decides, see above.
        with suppress(StateError):
            if not _is_ours(files.version(LOCK), run):
                return
            files.write(LOCK, _contents(run))


def _is_ours(there: StoredFile | None, run: str) -> bool:
    return there is not None and _parsed(there).get("run") == run


def _is_over(lock: dict[str, Any]) -> bool:
    """Whether it has expired, or its process has ended; an unreadable one is held by no process."""
    if not isinstance(lock.get("until"), int | float) or lock["until"] < time.time():
        return True
    boot = boot_identity()
    if boot is None or lock.get("boot") != boot or not isinstance(lock.get("process"), int):
        return False
    # Numbers of processes are used again, so the start has to be the same.
    if start_of_process(lock["process"]) != lock.get("started"):
        return True
    return lock["process"] == os.getpid() and lock.get("run") not in _held


def _contents(run: str) -> bytes:
    lock = {
        "run": run,
        "host": socket.gethostname(),
        "boot": boot_identity(),
        "process": os.getpid(),
        "started": start_of_process(os.getpid()),
        "until": time.time() + LEASE_SECONDS,
    }
    return json.dumps(lock).encode()


def _parsed(there: StoredFile) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(there.data)
        if isinstance(found, dict):
            return found
    return {}


def _refusal(location: str, lock: dict[str, Any]) -> str:
    left = max(0, round(float(lock.get("until") or 0) - time.time()))
    who = f" (process {lock['process']} on {lock['host']})" if "host" in lock and "process" in lock else ""
    return (
        f"another run of this job is under way{who}: it holds {location}/{LOCK}, which expires {left} s after a crash"
    )
