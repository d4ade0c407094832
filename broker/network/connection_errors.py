"""The log line of a connection that is closed for an error: of the peer, of the disk, or of the broker (a bug)."""

from __future__ import annotations

import ssl
import traceback
from typing import Any

from sordini.broker.network.peer_log_limiter import PeerLogLimiter
from sordini.broker.network.ports import Peer, SliceError
from sordini.client.tls.contexts import reason_of
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.replication.ports import Logger

LOGGED_TEXT_MAX = 256


def log_connection_error(
    log: Logger, peer_log: PeerLogLimiter, peer: Peer, error: Exception, frame: memoryview | None
) -> None:
    """Write the line; `frame` is the request that was served, if one was."""
    name = str(peer)
    if isinstance(error, WireError):
        about = {"peer": name, "listener": peer.listener, "api": _api(frame), "reason": _escaped(error)}
        peer_log.warning(peer.address, "connection closed", **about)
    elif isinstance(error, SliceError):
        log.error("response truncated", peer=name, reason=_escaped(error))
    elif isinstance(error, ssl.SSLError):
        reason = f"TLS: {reason_of(error)}"
        peer_log.warning(peer.address, "connection closed", peer=name, listener=peer.listener, reason=reason)
    elif isinstance(error, OSError):
        log.debug("connection lost", peer=name, reason=_escaped(error))
    else:
        trace = "".join(traceback.format_exception(error))
        log.error("connection closed by a bug", peer=name, api=_api(frame), traceback=trace)


def log_failed_abandonment(log: Logger, peer: Peer, error: Exception) -> None:
    """Write the line of a bug in a handler whose request was abandoned."""
    trace = "".join(traceback.format_exception(error))
    log.error("abandoning a request failed", peer=str(peer), traceback=trace)


def _escaped(error: object) -> str:
    """Text that may contain a peer's bytes, escaped for a log line."""
    return repr(str(error))[1:-1][:LOGGED_TEXT_MAX]


def _api(frame: memoryview | None) -> Any:
    """The API name of the request in a frame; its number when the API is unknown."""
    if frame is None or len(frame) < 2:
        return None
    key = int.from_bytes(frame[:2], "big", signed=True)
    return ApiKey(key).name if key in ApiKey.__members__.values() else key
