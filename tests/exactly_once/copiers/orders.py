"""What a copier is started with, what it writes down, and how its outputs look.

A copier reads a topic, and writes each value into another one: into the same partition, together with the name and the
size of the transaction in which it does. It is a program of its own, so that it can be killed at any moment.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

PIECE_MAX: Final = 40
"""Records in one transaction at most."""
PATIENCE_S: Final = 10.0
"""How long one request of a client may take before its program ends, to be started anew."""
HANGS_S: Final = 25.0
POLL_S: Final = 0.2
TRANSACTION_TIMEOUT_MS: Final = 30_000
SESSION_MS: Final = 3_000
ABORTED_EVERY: Final = 5
"""Each fifth transaction is aborted when all was sent, and its inputs are read again."""


class Orders(NamedTuple):
    """`name` is the transactional id; `partition` is -1 for a copier that shares the source with its group."""

    name: str
    bootstrap: str
    source: str
    sink: str
    group: str
    journal: str
    partition: int = -1


class Journal:
    """How transactions ended, as far as the program was answered. Each line is in the page cache once it returns."""

    def __init__(self, orders: Orders) -> None:
        self._path = Path(orders.journal)
        self._file = self._path.open("a", encoding="utf-8")  # Open for as long as the program.
        self._name = f"{orders.name}-{os.getpid()}"
        self.begun = 0

    def begin(self) -> str:
        """The name of the next transaction."""
        self.begun += 1
        return f"{self._name}-{self.begun}"

    @property
    def is_to_be_aborted(self) -> bool:
        """Whether the present transaction is one of those that are aborted on purpose."""
        return self.begun % ABORTED_EVERY == 0

    def has_ended(self, transaction: str) -> bool:
        """Whether the end of a transaction was written down, by this program or one before."""
        return json.dumps(transaction) in self._path.read_text(encoding="utf-8")

    def ended(self, transaction: str, ending: str) -> None:
        """Write down that the end of a transaction was answered: `committed` or `aborted`."""
        self._file.write(json.dumps([transaction, ending]) + "\n")
        self._file.flush()


class Stop:
    """Whether the program was told to end (SIGTERM); it ends after the present transaction."""

    def __init__(self) -> None:
        self._is_wanted = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: Any) -> None:
        self._is_wanted = True

    def is_wanted(self) -> bool:
        """To be asked before each transaction: one in which the client hangs ends the program, with a traceback."""
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        return self._is_wanted


def output(value: bytes, transaction: str, size: int) -> bytes:
    """The sink's value for one of the source."""
    return json.dumps({"of": value.decode(), "by": transaction, "size": size}).encode()


def run(copy: Callable[[Orders, Journal, Stop], None]) -> None:
    """The main function of a copier: its orders are the first argument, as JSON."""
    orders = Orders(**json.loads(sys.argv[1]))
    stop = Stop()
    try:
        copy(orders, Journal(orders), stop)
    except Exception:  # noqa: BLE001  # Whatever ended the copier is for its supervisor.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # In order it may take for ever: librdkafka waits for its requests.
