"""The secret that made-up credentials follow from: one for a cluster, in the coordination store beside the credentials.

    /sordini/unknown_users   {"version":1,"secret":"<base64 of 32 bytes>"}

With access control lists the node is readable to the brokers' login only, as the users' nodes are. The first broker
that needs it makes it; another broker that makes it at the same time reads the first one's. Where the node is gone from
the store, a running broker writes the one that it has.
"""

from __future__ import annotations

import base64
import json
from typing import Final

from sordini.replication.metadata_store import paths
from sordini.replication.ports import Logger, NodeExists, NoNode, Session

SECRET_BYTES: Final = 32


async def shared_secret(session: Session, proposed: bytes, log: Logger) -> bytes:
    """The secret of the cluster: `proposed` where there is none yet. Raises CoordinationError.

    One that cannot be read is left as it is, and logged; this broker uses the proposed one then.
    """
    try:
        data, _ = await session.get(paths.UNKNOWN_USERS)
    except NoNode:
        text = base64.b64encode(proposed).decode()
        try:
            await session.create(paths.UNKNOWN_USERS, json.dumps({"version": 1, "secret": text}).encode())
        except NodeExists:
            data, _ = await session.get(paths.UNKNOWN_USERS)
        except NoNode:  # The parent was deleted by hand, and is there after the next start of a broker.
            return proposed
        else:
            return proposed
    found = _decoded(data)
    if found is None:
        log.error("unreadable secret of logins: delete the node and restart", path=paths.UNKNOWN_USERS)
        return proposed
    return found


def _decoded(data: bytes) -> bytes | None:
    try:
        secret = base64.b64decode(json.loads(data)["secret"], validate=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return secret if len(secret) >= SECRET_BYTES else None
