"""What a client does (KIP-848): a heartbeat at a time, and its assignment as it was sent last.

It gives partitions up before it takes new ones, and reports what it owns when that has changed. After an error, or
without an answer, its next heartbeat says everything. Fenced, it abandons its partitions and joins again.
"""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import Answer, HeartbeatAnswer
from sordini.broker.groups.consumer.member_connections import OlderConnection
from tests.model.consumer_groups.state import (
    HEARTBEAT,
    IN,
    JOIN,
    JOINING,
    LEAVE,
    NOTHING,
    Client,
    Request,
    partitions_of,
)

LEAVE_EPOCH = -1


def request(client: Client, me: int) -> Request:
    """Its next heartbeat."""
    if client.phase == JOINING:
        return Request(me, JOIN, 0, NOTHING, is_full=True)
    owned = None if client.owned == client.sent else client.owned
    return Request(me, HEARTBEAT, client.epoch, owned, is_full=client.sent is None)


def leave(client: Client, me: int) -> Request:
    return Request(me, LEAVE, LEAVE_EPOCH, None, is_full=False)


def sent(client: Client) -> Client:
    """It waits for the answer."""
    return client._replace(sent=client.owned)


def answered(client: Client, answer: Answer | OlderConnection | None) -> Client:
    """It has the answer to the heartbeat that it has `sent`."""
    assert not isinstance(answer, OlderConnection), "a live client is disconnected, and would have to send again"
    if not isinstance(answer, HeartbeatAnswer):
        return Client(JOINING)
    assignment = client.target if answer.assignment is None else partitions_of(answer.assignment)
    joined = client._replace(phase=IN, epoch=answer.member_epoch, target=assignment, is_void=False)
    return joined if must_revoke(joined) else revoked(joined)


def unanswered(client: Client) -> Client:
    return client._replace(sent=None)


def must_revoke(client: Client) -> bool:
    return not client.owned <= client.target


def revoked(client: Client) -> Client:
    """It has given up what is not assigned to it, and takes what is."""
    return client._replace(owned=client.target)
