"""Whether a tree in the coordination store is the one of this cluster.

A broker writes nothing into any other tree: there it would register as a new cluster's first broker and could be
elected controller of a cluster without topics. Trees are told apart by two reads:

    /cluster/id is absent              emptied, another chroot, or a copy that is not whole: lost
    /cluster/id is another cluster's   another chroot or ensemble: foreign
    /cluster/id is ours, no topics     lost, where this broker holds replicas (a topic leaves the tree last, once all
                                       its replicas are deleted)
    /cluster/id is ours, topics        ours; one from an older backup may lack topics, which `unknown_topics` names
"""

from __future__ import annotations

from collections.abc import Iterable

from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import NoNode, Session

NAMED_MAX = 10
"""How many topics one log line names."""


def mismatch_reason(cluster_id: str, found: str | Malformed | None, *, lacks_topics: bool = False) -> str:
    """What is wrong with a tree whose /cluster/id holds `found` (None: there is no such node); "" for nothing.

    `lacks_topics`: the tree has no topic, and this broker holds replicas.
    """
    if found is None:
        return f"it holds no cluster, {paths.CLUSTER_ID} is not there"
    if isinstance(found, Malformed):
        return f"{found.path} cannot be read: {found.reason}"
    if found != cluster_id:
        return f"it holds cluster {found}"
    return "it holds the cluster's id and none of its topics" if lacks_topics else ""


async def mismatch(session: Session, cluster_id: str, *, holds_replicas: bool = False) -> str:
    """What is wrong with the tree of a session, as `judge` says. Raises SessionExpired, ConnectionLoss."""
    return mismatch_reason(
        cluster_id, await found_id(session), lacks_topics=holds_replicas and not await _topics(session)
    )


async def found_id(session: Session) -> str | Malformed | None:
    """The id in the tree; None without one."""
    try:
        data, _ = await session.get(paths.CLUSTER_ID)
    except NoNode:
        return None
    return znodes.decode_cluster_id(data)


async def unknown_topics(session: Session, held: Iterable[str]) -> list[str]:
    """Those of the topics `held` on this broker's disks that the tree does not have, in order."""
    return sorted(set(held) - set(await _topics(session)))


async def _topics(session: Session) -> list[str]:
    try:
        return await session.children(paths.TOPICS)
    except NoNode:
        return []
