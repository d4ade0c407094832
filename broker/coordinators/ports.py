"""The ports of a coordinator's shell."""

from __future__ import annotations

from typing import NamedTuple

from sordini.replication.ports import CallLater, Clock, Logger, Spawn
from sordini.storage.log_dir_handle import Randomness


class Ports(NamedTuple):
    """The ports that all coordinators share."""

    clock: Clock
    call_later: CallLater
    spawn: Spawn
    randomness: Randomness
    log: Logger
