"""The ports of a coordinator's shell."""

from __future__ import annotations

from sordini.replication.ports import CallLater, Clock, Logger, Spawn
from sordini.storage.log_dir_handle import Randomness
from sordini.system.named_tuple import NamedTuple


class Ports(NamedTuple):
    """The ports that all coordinators share."""

    clock: Clock
    call_later: CallLater
    spawn: Spawn
    randomness: Randomness
    log: Logger
