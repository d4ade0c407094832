"""What has settings, as requests name it."""

from __future__ import annotations

from enum import IntEnum

from sordini.system.named_tuple import NamedTuple


class ResourceKind(IntEnum):
    """Resource types, as numbered in requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """A resource with settings; `kind` is a ResourceKind, or an unknown number."""

    kind: int
    name: str
