"""TLS, users and access control in a simulated cluster: the production code of both, between simulated sockets.

All listeners are SASL_SSL, the scripted controller's, too. Brokers, the controller and clients log in by SCRAM as users
that are in the store; clients may do what entries allow, and a guest without entries tries to write.

The bytes of handshakes are OpenSSL's own, and different each time; how many there are is not, since keys and signatures
have one length. So a seed's trace is the same in each run.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
import ssl
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from sordini.broker.network.ports import SocketOptions
from sordini.broker.network.tls_handshakes import HandshakeFailed, Handshakes, LoopWorker
from sordini.broker.network.tls_socket import BrokerTlsSocket
from sordini.broker.security.sasl.exchanges import LoginRefused, ScramExchange
from sordini.broker.security.sasl.scram_credential import ScramCredential, credential_of, salted
from sordini.client.authentication import SaslCredentials, authenticate
from sordini.client.connection import API_OF
from sordini.client.errors import Unauthorized
from sordini.client.versions import negotiate, run_steps
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersion
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.messages.sasl import (
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from sordini.protocol.records.batch import Record
from sordini.replication.metadata_store.acl_model import (
    AclEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from sordini.replication.metadata_store.acls import encode_entries, path_of
from sordini.testing.simulation.simulated_network import CONNECT_TIMEOUT_MS, Address, SimNetwork, SimSocket
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.sim.client import ClientSocket, Connection
from tests.sim.cluster.service import Answer, Reply
from tests.support.builders import a_batch
from tests.support.certificates import Authority
from tests.support.secured_client import LoginRefusedError, UnknownSignatureError, login_error

PROTOCOL: Final = "SASL_SSL"
MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
BROKER: Final = "broker"
"""Of the brokers and the controller: a super user."""
CLIENT: Final = "client"
GUEST: Final = "guest"
UNKNOWN: Final = "unknown"
"""A user that is not in the store."""
REFUSED: Final = {
    GUEST: {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    UNKNOWN: {ErrorCode.SASL_AUTHENTICATION_FAILED},
}
GUEST_GAP_S: Final = 0.4
GUEST_PATIENCE_S: Final = 1.0
HOSTS: Final = ("node1", "node2", "node3", "controller")
KEY_BITS: Final = 2048
HANDSHAKE_MS: Final = 3_000
_SALT: Final = bytes(range(16))
_NONCE: Final = "0" * 24
_SASL_VERSIONS: Final = {ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 2}


class Stores(NamedTuple):
    """The certificates of all runs of this process: one for all hosts."""

    settings: dict[str, str]
    server: ssl.SSLContext
    client: ssl.SSLContext


@functools.cache
def stores() -> Stores:
    """Made once: a key takes a tenth of a second."""
    authority = Authority(rsa_bits=KEY_BITS)
    issued = authority.issue("node", HOSTS, rsa_bits=KEY_BITS, serial_number=4711)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        server.load_cert_chain(issued.pem_file(Path(directory) / "node.pem"))
    client = ssl.create_default_context(cadata=authority.pem)
    return Stores({**issued.inline(), **authority.inline()}, server, client)


def password_of(user: str) -> str:
    """Simulated users need no secrets."""
    return f"password of {user}"


@functools.cache
def credential(user: str) -> ScramCredential:
    return credential_of(MECHANISM, salted(MECHANISM, password_of(user), _SALT, ITERATIONS), _SALT, ITERATIONS)


def node_settings() -> dict[str, str]:
    """What a broker's configuration has more than without security."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="{BROKER}" password="{password_of(BROKER)}";'
    return {
        "security.inter.broker.protocol": PROTOCOL,
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.{PROTOCOL.lower()}.{MECHANISM.lower()}.sasl.jaas.config": login,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{BROKER}",
        # Sooner than the guest stops waiting.
        "connection.failed.authentication.delay.ms": "100",
        **stores().settings,
    }


def nodes_of_store(topics: Iterable[str]) -> dict[str, bytes]:
    """The users, and the entries of CLIENT, as nodes of ZooKeeper."""
    nodes = {
        f"/config/users/{user}": json.dumps({"version": 1, "config": {MECHANISM: credential(user).text}}).encode()
        for user in (BROKER, CLIENT, GUEST)
    }
    read_and_write = (AclOperation.READ, AclOperation.WRITE)
    wanted: dict[ResourcePattern, tuple[AclOperation, ...]] = {
        ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL): read_and_write for topic in topics
    }
    wanted |= {
        ResourcePattern(ResourceType.GROUP, "*", PatternType.LITERAL): (AclOperation.READ,),
        ResourcePattern(ResourceType.TRANSACTIONAL_ID, "*", PatternType.LITERAL): (AclOperation.WRITE,),
        ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL): (AclOperation.IDEMPOTENT_WRITE,),
    }
    for pattern, operations in sorted(wanted.items()):
        entries = [AclEntry(f"User:{CLIENT}", "*", operation, Permission.ALLOW) for operation in operations]
        nodes[path_of(pattern)] = encode_entries(entries)
    return nodes


class SimTlsSocket(BrokerTlsSocket):
    """TLS over a simulated socket."""

    __slots__ = ()

    @property
    def wire(self) -> SimSocket:
        found = self._inner
        assert isinstance(found, SimSocket)
        return found


class SecuredNetwork:
    """The simulated network as one user sees it: connections have done their handshake and their login."""

    def __init__(self, network: SimNetwork, user: str) -> None:
        self.loop: SimLoop = network.loop
        self.trace = network.trace
        self._network = network
        self._user = user
        self._handshakes = Handshakes(LoopWorker(), HANDSHAKE_MS, 1_000)

    async def connect(
        self, address: Address, options: SocketOptions | None = None, timeout_ms: int = CONNECT_TIMEOUT_MS
    ) -> SimTlsSocket:
        """As the port says. Raises OSError; a refused login is a LoginRefusedError."""
        inner = await self._network.connect(address, options, timeout_ms)
        secured = SimTlsSocket(inner, stores().client, host=address[0])
        try:
            await self._handshakes.complete(secured)
        except HandshakeFailed as failure:
            raise ConnectionResetError(str(failure)) from None
        login = Connection(self.loop, secured, "login")
        is_done = False
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._log_in(login)
            is_done = True
        finally:
            if not is_done:
                login.close()
        login.release()
        return secured

    async def _log_in(self, connection: Connection) -> None:
        def send(request: Any, version: int) -> asyncio.Future[Any]:
            return connection.request(API_OF[type(request)].key, version, request)

        credentials = SaslCredentials(MECHANISM, self._user, password_of(self._user))
        versions = await run_steps(negotiate(), send)
        try:
            await run_steps(authenticate(credentials, versions, "the broker", _NONCE), send)
        except Unauthorized as refused:
            raise login_error(refused) from None


class Guest:
    """A user without rights, and a user that does not exist: both write, and must be refused."""

    def __init__(self, network: SimNetwork, addresses: list[Address], topic: str, seed: int) -> None:
        self.findings: list[str] = []
        self.refused = 0
        self._network = network
        self._addresses = addresses
        self._topic = topic
        self._random = random.Random(f"guest {seed}")

    async def run(self, until: float) -> None:
        loop = self._network.loop
        while loop.time() < until:
            await asyncio.sleep(self._random.expovariate(1 / GUEST_GAP_S))
            user = self._random.choice((GUEST, UNKNOWN))
            try:
                async with asyncio.timeout(GUEST_PATIENCE_S):
                    code = await self._attempt(user, self._random.choice(self._addresses))
            except LoginRefusedError:
                code = ErrorCode.SASL_AUTHENTICATION_FAILED
            except UnknownSignatureError:
                code = ErrorCode.NONE
            except (OSError, TimeoutError):
                continue
            if code not in REFUSED[user]:
                self.findings.append(f"{user} was answered {code} when writing at {loop.time():.3f}")
            self.refused += 1

    async def _attempt(self, user: str, address: Address) -> int:
        connection = await Connection.open(SecuredNetwork(self._network, user), address, user)
        try:
            batch = a_batch([Record(0, 0, None, b"of a guest")])
            rows = [PartitionProduceData(index=0, records=memoryview(batch))]
            topics = [TopicProduceData(name=self._topic, partition_data=rows)]
            request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
            answer = await connection.request(ApiKey.PRODUCE, 9, request)
            return int(answer.responses[0].partition_responses[0].error_code)
        finally:
            connection.close()


class SecuredService:
    """The scripted controller's end: the same for connections that it accepts."""

    def __init__(self) -> None:
        self._handshakes = Handshakes(LoopWorker(), HANDSHAKE_MS, 1_000)

    def accepted(self, socket: SimSocket, serve: Callable[[ClientSocket, Answer], None], answer: Answer) -> None:
        """Do the handshake, then let `serve` have the socket, with an answer that asks for a login first."""
        secured = SimTlsSocket(socket, stores().server)

        def ended(_: Any, error: BaseException | None) -> None:
            if error is None:
                serve(secured, _Login(answer))

        self._handshakes.begin(secured, ended, lambda _: None)


class _Login:
    """Answers of one connection: until a broker has logged in, nothing but the login."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._exchange = ScramExchange(MECHANISM, lambda _, user: (credential(user), True), _NONCE)
        self._user: str | None = None

    def __call__(self, api_key: ApiKey, version: int, request: Any) -> Reply:
        if api_key == ApiKey.API_VERSIONS:
            reply = self._answer(api_key, version, request)
            reply.message.api_keys += [
                ApiVersion(api_key=key, min_version=0, max_version=top) for key, top in _SASL_VERSIONS.items()
            ]
            return reply
        if api_key == ApiKey.SASL_HANDSHAKE:
            return Reply(SaslHandshakeResponse(mechanisms=[MECHANISM]))
        if api_key == ApiKey.SASL_AUTHENTICATE:
            return Reply(self._authenticate(request.auth_bytes))
        assert self._user == BROKER, f"{api_key.name} by {self._user}"
        return self._answer(api_key, version, request)

    def _authenticate(self, token: bytes) -> SaslAuthenticateResponse:
        try:
            progress = self._exchange.step(bytes(token))
        except LoginRefused as refused:
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(refused))
        self._user = progress.user
        return SaslAuthenticateResponse(auth_bytes=progress.challenge)
