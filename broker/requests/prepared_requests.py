"""A prepared way for requests that repeat: the table of their shapes.

A client sends the same request again and again: only the correlation id and the payload change. All bytes before the
payload are the *prefix*. The dispatcher learns the prefix of a request that was served the general way, and keeps a
`PreparedRequest` for it. The next request with the same prefix is found by one comparison of bytes, and is served in
straight-line code: no decoder, no message objects, no encoder.

    int16 key, int16 version | int32 correlation id | prefix: client id ... up to the payload | payload
    `-------- equal --------'                         `-------------- equal ---------------'

    found ── still holds? ── usual? ──► served; the answer is packed into a template
                  │ no          │ no
                  ▼ STALE       ▼ UNUSUAL
             general way     general way, with nothing done yet
             and learned again

No handler knows of this room, and switching it off changes no answer. Invariants:
  - a prepared request changes nothing before it is certain that it serves the request; a write that the disk refuses
    was undone by the log, and the general way attempts it again and reports it;
  - all that a request decided when it was prepared from objects that may change is compared again, at one place:
    the top of each `serve`. A check that later applies to the general way (ACLs, quotas, a transaction's
    partitions) belongs there, too;
  - the table has a bound, and holds nothing of a partition whose leadership has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from sordini.broker.network.ports import DelayedResponse, Parts, Peer
from sordini.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from sordini.broker.requests.call import Call

PREPARED_MAX: Final = 4096
"""Prepared requests of one broker, of about 1 KiB each."""

PREFIX_BYTES_MAX: Final = 1024
"""A longer prefix is not prepared: a name of a topic has at most 249 bytes, and client ids are short."""

PASSED_MAX: Final = 16
"""While the table is full, only one of so many new shapes is learned: learning costs more than one request saves."""

PREFIX_ENDS_MAX: Final = 4
"""Different lengths of prefixes that are tried for one connection."""

BODY_POSITION: Final = 8
"""Where a prefix begins in its frame: after the correlation id."""


class Declined(Enum):
    """Why a request goes the general way after all. Nothing was done."""

    UNUSUAL = "this request is not an ordinary one of its shape"
    STALE = "what was prepared does not hold any more"


Served = Parts | DelayedResponse | Declined | None


class PreparedRequest(Protocol):
    """Serves the requests of one shape."""

    def serve(self, peer: Peer, frame: memoryview, correlation_id: int) -> Served:
        """Answer a request as the general way would, or decline with nothing done."""


class Preparer(Protocol):
    """Prepares the requests of one API."""

    def prepare(self, call: Call) -> tuple[bytes, PreparedRequest] | None:
        """The prefix and the prepared request for a call that was served; None when its kind is never prepared."""


class PreparedRequests:
    """The prepared requests of one broker, by API, version and prefix."""

    __slots__ = ("_passed", "by_prefix", "guard", "preparers")

    def __init__(self) -> None:
        self.guard: Callable[[Call, PreparedRequest], PreparedRequest | None] | None = None
        """With an authorizer: puts its rule in front of a prepared request, or says that it must not be prepared."""
        self.preparers: dict[ApiKey, Preparer] = {}
        self.by_prefix: dict[tuple[int, bytes], PreparedRequest] = {}
        """The key's number is the API key and version, as in the frame's first four bytes."""
        self._passed = 0

    def learn(self, preparer: Preparer, peer: Peer, number: int, frame: memoryview, call: Call) -> None:
        """Prepare requests like this one, which was served the general way."""
        if len(self.by_prefix) >= PREPARED_MAX:
            self._passed = (self._passed + 1) % PASSED_MAX
            if self._passed:
                return
        prepared = preparer.prepare(call)
        if prepared is None:
            return
        prefix, request = prepared
        if self.guard is not None:
            guarded = self.guard(call, request)
            if guarded is None:
                return
            request = guarded
        end = BODY_POSITION + len(prefix)
        if len(prefix) > PREFIX_BYTES_MAX or frame[BODY_POSITION:end] != prefix:
            return  # Not in the canonical form: its next bytes could be read in another way.
        if end not in peer.prefix_ends:
            peer.prefix_ends = (end, *peer.prefix_ends[: PREFIX_ENDS_MAX - 1])
        key = number, prefix
        if len(self.by_prefix) >= PREPARED_MAX and key not in self.by_prefix:
            del self.by_prefix[next(iter(self.by_prefix))]
        self.by_prefix[key] = request

    def forget_all(self) -> None:
        """Drop all: the next request of each shape is served the general way, and learned."""
        self.by_prefix.clear()
