"""What becomes of the responses of a connection that has closed."""

from __future__ import annotations

from collections.abc import Iterable

from sordini.broker.network.connection_errors import log_failed_abandonment
from sordini.broker.network.ports import DelayedResponse, Parts, Peer, release_parts
from sordini.protocol.request_pipeline import ResponseSlot
from sordini.replication.ports import Logger


def abandon_all(slots: Iterable[ResponseSlot], log: Logger, peer: Peer) -> None:
    """Drop pending responses."""
    for slot in slots:
        if not isinstance(slot, DelayedResponse):
            release_parts(slot.answer)
            continue
        try:
            slot.abandon()
        except Exception as error:  # noqa: BLE001 - a bug in one handler must not leave the others pending.
            log_failed_abandonment(log, peer, error)


def drop(answer: Parts | DelayedResponse | None) -> None:
    """Release a response whose connection was closed while it was made."""
    if isinstance(answer, DelayedResponse):
        answer.abandon()
    else:
        release_parts(answer)
