"""Who sends a request, and what it may do: decided by the cluster, as which the visitor logs in there.

With a login, the name and password (HTTP Basic) or the token (Bearer) of a request are those with which the registry
connects to the cluster for it; the cluster refuses them, or says what this principal may do with a topic. A subject
belongs to the topic that its name begins with: `orders-key` and `orders-value` to `orders`, other subjects to the topic
of their name.

    in the registry                        with the topic of the subject
    read a schema                          Describe (which Read, Write, Alter and Delete imply)
    register a schema                      Write
    delete one                             Delete
    change compatibility or mode           AlterConfigs
    ... of all subjects or of a context    AlterConfigs of the cluster

A topic that is not there yet has no operations: who may create it may do all of these.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final, TypeVar

from sordini.admin.cluster_client import ClusterClient
from sordini.client.authentication import OAUTHBEARER, SaslCredentials
from sordini.client.errors import ClientError, Disconnected, Unauthorized
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sordini.protocol.messages.describe_cluster import DescribeClusterRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from sordini.registry.http.calls import Operation, Visitor
from sordini.registry.state.names import parted
from sordini.registry.state.refusals import Refusal
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.system.keyed_locks import KeyedLocks
from sordini.system.named_tuple import NamedTuple

T = TypeVar("T")
ANYONE: Final = "ANONYMOUS"
SESSIONS_MAX: Final = 200
SESSION_S: Final = 60.0
"""After so long a visitor logs in to the cluster again, whose users may have changed."""
OPERATIONS_S: Final = 5.0
"""For so long the operations of a topic are taken as they were."""
TOPICS_MAX: Final = 100_000
CLUSTER_S: Final = 10.0
VISITOR_S: Final = 15.0
"""For a login, and those of the same visitor before it."""
TOPICS_PER_REQUEST: Final = 500
NAMELESS: Final = "bearer"
"""The principal of a token that has no name of its own."""
SUBJECT_LENGTH_MAX: Final = 200
"""Of a principal in log lines."""
_SUFFIXES: Final = ("-value", "-key")
_NEEDED: Final = {
    Operation.READ: AclOperation.DESCRIBE,
    Operation.WRITE: AclOperation.WRITE,
    Operation.DELETE: AclOperation.DELETE,
    Operation.ALTER: AclOperation.ALTER_CONFIGS,
}
_ALL: Final = (1 << 31) - 1
_AUTHORIZATION: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})

OpenCluster = Callable[[SaslCredentials], ClusterClient]
"""A client that logs in to the cluster as a visitor."""


def topic_of(subject: str) -> str:
    """The topic whose access control decides about a subject, in any context."""
    name = parted(subject)[1]
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)


class Anyone:
    """A visitor of a registry without logins: it may do everything."""

    principal = ANYONE

    async def allowed(self, operation: Operation, subjects: Collection[str]) -> frozenset[str]:
        del operation
        return frozenset(subjects)

    async def may_alter_all(self) -> bool:
        return True


class NoLogins:
    """Takes every request."""

    async def visitor(self, headers: Mapping[str, str], attempt: Callable[[], None]) -> Visitor:
        """As `Logins`."""
        del headers, attempt
        return Anyone()

    def close(self) -> None:
        return


class ClusterLogins:
    """Takes requests of the users of a cluster."""

    def __init__(self, open_cluster: OpenCluster, mechanism: str, now_s: Callable[[], float]) -> None:
        """`mechanism`: by which names and passwords are presented to the cluster."""
        self._open_cluster = open_cluster
        self._mechanism = mechanism
        self._now_s = now_s
        self._sessions: OrderedDict[bytes, ClusterVisitor] = OrderedDict()
        """By a digest of the credentials, which are not kept."""
        self._opening = KeyedLocks()
        self._over: set[ClusterVisitor] = set()
        """Sessions that are over, whose last requests may be under way."""

    async def visitor(self, headers: Mapping[str, str], attempt: Callable[[], None]) -> Visitor:
        """As `Logins`."""
        credentials = credentials_of(headers.get("authorization", ""), self._mechanism)
        key = hashlib.sha256(repr(tuple(vars(credentials).values())).encode()).digest()
        known = self._known(key)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(VISITOR_S), self._opening.held(key.hex()):
                known = self._known(key)
                if known is not None:
                    return known
                attempt()
                return await self._opened(key, credentials)
        except TimeoutError:
            raise Refusal(503, f"the cluster has not answered to a login for {VISITOR_S:g} s") from None

    def close(self) -> None:
        for session in (*self._sessions.values(), *self._over):
            session.close()
        self._sessions.clear()

    def _known(self, key: bytes) -> ClusterVisitor | None:
        session = self._sessions.get(key)
        if session is None or self._now_s() - session.began_s < SESSION_S:
            return session
        self._end(self._sessions.pop(key))
        return None

    def _end(self, session: ClusterVisitor) -> None:
        def ended() -> None:
            self._over.discard(session)
            session.close()

        self._over.add(session)
        asyncio.get_running_loop().call_later(2 * CLUSTER_S, ended)

    async def _opened(self, key: bytes, credentials: SaslCredentials) -> ClusterVisitor:
        cluster = self._open_cluster(credentials)
        try:
            async with asyncio.timeout(CLUSTER_S):
                await cluster.any_broker()
        except Unauthorized as error:
            cluster.close()
            raise Refusal(401, f"the cluster refuses the login: {error}") from None
        except (ClientError, TimeoutError) as error:
            cluster.close()
            raise Refusal(503, f"the cluster cannot be reached to check the login: {error}") from None
        except BaseException:  # Raised again - cancelled: the connection is given back.
            cluster.close()
            raise
        session = ClusterVisitor(cluster, credentials.username or token_subject(credentials.password), self._now_s)
        self._sessions[key] = session
        while len(self._sessions) > SESSIONS_MAX:
            self._end(self._sessions.popitem(last=False)[1])
        return session


def credentials_of(header: str, mechanism: str) -> SaslCredentials:
    """What an Authorization header has. Raises Refusal."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer" and rest.strip():
        return SaslCredentials(OAUTHBEARER, "", rest.strip())
    if scheme.lower() == "basic":
        try:
            name, colon, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise Refusal(401, "the Authorization header is not Base64 of UTF-8") from None
        if colon and name:
            return SaslCredentials(mechanism, name, password)
    raise Refusal(401, "log in with a name and a password (Basic), or with a token (Bearer)")


def token_subject(token: str) -> str:
    """The `sub` of a token that the cluster took, for log lines and messages: what it may do is not decided by it.

    "bearer" for a token that is opaque, or has another name for its principal.
    """
    payload = token.split(".")[1:2]
    try:
        found = json.loads(base64.urlsafe_b64decode("".join(payload) + "==")).get("sub")
    except (AttributeError, ValueError, RecursionError):
        return NAMELESS
    is_name = isinstance(found, str) and found.isprintable() and 0 < len(found) <= SUBJECT_LENGTH_MAX
    return found if is_name else NAMELESS


class _Rights(NamedTuple):
    """What a visitor may do with a topic."""

    operations: int
    """A bit for each AclOperation."""
    read_s: float
    is_missing: bool
    """There is no such topic."""


class ClusterVisitor:
    """One that is logged in to the cluster."""

    def __init__(self, cluster: ClusterClient, principal: str, now_s: Callable[[], float]) -> None:
        self.principal = principal
        self.began_s = now_s()
        self._cluster = cluster
        self._now_s = now_s
        self._rights: dict[str, _Rights] = {}
        """By topic."""

    def close(self) -> None:
        self._cluster.close()

    async def allowed(self, operation: Operation, subjects: Collection[str]) -> frozenset[str]:
        """As `Visitor`."""
        topics = {subject: topic_of(subject) for subject in subjects}
        await self._answered(partial(self._learn, set(topics.values())))
        needed = 1 << _NEEDED[operation]
        for topic in sorted(set(topics.values())):
            rights = self._rights[topic]
            if rights.is_missing and not rights.operations & needed:
                await self._answered(partial(self._learn_missing, topic))
        return frozenset(subject for subject, topic in topics.items() if self._rights[topic].operations & needed)

    async def may_alter_all(self) -> bool:
        """As `Visitor`."""
        return await self._answered(self._alters_cluster)

    async def _alters_cluster(self) -> bool:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await (await self._cluster.any_broker()).ask(request)
        return bool(response.cluster_authorized_operations & (1 << AclOperation.ALTER_CONFIGS))

    async def _learn(self, topics: set[str]) -> None:
        """Read the operations of topics of which none, or old ones, are known."""
        now_s = self._now_s()
        if len(self._rights) > TOPICS_MAX:
            self._rights.clear()
        known = self._rights
        wanted = sorted(one for one in topics if one not in known or now_s - known[one].read_s > OPERATIONS_S)
        for first in range(0, len(wanted), TOPICS_PER_REQUEST):
            named = wanted[first : first + TOPICS_PER_REQUEST]
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in named],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
            )
            response = await (await self._cluster.any_broker()).ask(request, at_least=8)
            known.update(dict.fromkeys(named, _Rights(0, now_s, is_missing=False)))
            known.update({topic.name: _rights(topic, now_s) for topic in response.topics})

    async def _learn_missing(self, topic: str) -> None:
        """Find out whether the visitor may create a topic that is not there; it is not created."""
        created = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[created], validate_only=True)
        response = await (await self._cluster.controller()).ask(request, at_least=1)
        if all(row.error_code not in _AUTHORIZATION for row in response.topics):
            self._rights[topic] = self._rights[topic]._replace(operations=_ALL)

    async def _answered(self, question: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question that changes nothing. Raises Refusal."""
        try:
            async with asyncio.timeout(CLUSTER_S):
                try:
                    return await question()
                except Disconnected:
                    # A restart, or the end of a token (KIP-368), with which a new connection is refused.
                    return await question()
        except Unauthorized as error:
            raise Refusal(401, f"the cluster refuses the login: {error}") from None
        except (ClientError, TimeoutError) as error:
            raise Refusal(503, f"the cluster cannot be asked what {self.principal} may do: {error}") from None


def _rights(topic: MetadataResponseTopic, now_s: float) -> _Rights:
    match topic.error_code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # Otherwise it is TOPIC_AUTHORIZATION_FAILED.
            return _Rights(1 << AclOperation.DESCRIBE, now_s, is_missing=True)
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED | ErrorCode.INVALID_TOPIC_EXCEPTION:
            return _Rights(0, now_s, is_missing=False)
    return _Rights(topic.topic_authorized_operations, now_s, is_missing=False)
