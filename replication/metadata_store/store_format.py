"""Which layout a cluster's tree has, for Sordini's brokers of different versions.

    /sordini    {"version":1,"format":1}

Apache Kafka's nodes carry versions of their own. This node speaks of what Sordini's brokers agree on beyond those: a
later Sordini that writes what an earlier one would misread raises `format`, once all brokers of the cluster know it.
Whoever does not know the format of a tree leaves the tree alone. `version` is that of this node's own JSON; readers
need only `format`. Apache Kafka does not look at the node.
"""

from __future__ import annotations

import json
from typing import Final

from sordini.replication.metadata_store import paths
from sordini.replication.ports import NodeExists, Session, StoreUnusable

FORMAT: Final = 1
"""The layout that this version of Sordini writes, and the newest that it reads."""

NODE: Final = b'{"version":1,"format":1}'
"""What the first broker of a cluster writes."""


async def ensure_format(session: Session) -> None:
    """See that this version knows the format of the tree; the first broker writes it down.

    Raises StoreUnusable when the tree's is newer than this version knows, or cannot be read.
    """
    try:
        await session.create(paths.SORDINI, NODE, make_parents=True)  # The chroot, of a ZooKeeper.
    except NodeExists:
        data, _ = await session.get(paths.SORDINI)
        check_known_format(data)


def check_known_format(data: bytes) -> None:
    """Raise StoreUnusable, as `ensure_format` does, for the bytes of the node."""
    try:
        found = json.loads(data)["format"]
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise TypeError(f"{found!r} is not a format")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreUnusable(
            f"{paths.SORDINI} does not say which format the coordination store has ({type(error).__name__}: {error}): "
            f"if its brokers are of this version, write {NODE.decode()} there"
        ) from None
    if found > FORMAT:
        raise StoreUnusable(
            f"the coordination store has format {found} ({paths.SORDINI}), and this version of Sordini knows formats "
            f"up to {FORMAT}: start the newer version that wrote it, or bring back a copy of the store from before"
        )
