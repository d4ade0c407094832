"""Who a peer is. Pure."""

from __future__ import annotations

from typing import Final, Protocol

from sordini.system.named_tuple import NamedTuple


class Principal(NamedTuple):
    """As entries of access control name it: `User:alice`."""

    kind: str
    """`User`."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Every peer of a PLAINTEXT listener, and of an SSL listener without client certificates."""


class Requester(Protocol):
    """Who requests something, and from where; a `Peer` is one."""

    @property
    def principal(self) -> Principal: ...

    @property
    def address(self) -> str:
        """As text, without the port."""
