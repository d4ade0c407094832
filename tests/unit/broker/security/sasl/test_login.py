"""The login of a connection: which requests are served before and after it, sessions that end, and refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse, Peer
from sordini.broker.network.principal import ANONYMOUS, Principal
from sordini.broker.security.sasl.login import Login
from sordini.broker.security.sasl.scram_credential import salted
from sordini.broker.security.sasl.users import user_entity
from sordini.client.scram import Scram
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from sordini.protocol.messages.metadata import MetadataRequest
from sordini.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from sordini.replication.metadata_store.store_format import ensure_format
from tests.support.unit_broker import UnitBroker, a_broker, answer_of, read_answer

LINE = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=secret user_bob=secret;"
SETTINGS = {
    "listeners": "PLAINTEXT://:9092,CLIENT://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.client.plain.sasl.jaas.config": LINE,
    "sordini.logins.pending.max": "2",
}
ALICE = b"\0alice\0secret"


class Connection:
    """One connection of the SASL listener, without a socket."""

    def __init__(self, broker: UnitBroker) -> None:
        self.broker = broker
        self.peer = Peer("CLIENT", "SASL_PLAINTEXT", "192.0.2.1", 4711, "connection-1")
        logins = broker.parts.security.logins
        assert logins is not None
        self.is_accepted = logins.begin(self.peer)

    @property
    def login(self) -> Login:
        assert self.peer.login is not None
        return self.peer.login

    def send(self, key: ApiKey, version: int, request: Any) -> Any:
        """The answer, or what completes it later."""
        frame = self.broker.frame(key, version, request)
        service = self.peer.gate or self.broker.parts.dispatcher
        parts = service.serve(self.peer, frame)
        return parts if isinstance(parts, DelayedResponse) else read_answer(key, version, parts or [])

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.send(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))

    def authenticate(self, token: bytes = ALICE, version: int = 2) -> Any:
        return self.send(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token))

    def metadata(self) -> Any:
        return self.send(ApiKey.METADATA, 9, MetadataRequest(topics=[]))


@asynccontextmanager
async def a_connection(**settings: str) -> AsyncIterator[Connection]:
    async with a_broker(SETTINGS | settings) as broker:
        yield Connection(broker)


async def test_before_the_login_only_its_own_requests_are_served_and_afterwards_all() -> None:
    async with a_connection() as connection:
        assert connection.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest()).error_code in (
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
        )
        with pytest.raises(WireError, match="before the login"):
            connection.metadata()
        assert connection.handshake().mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        with pytest.raises(WireError, match="before the login"):
            connection.metadata()
        assert connection.peer.principal == ANONYMOUS
        answer = connection.authenticate()
        assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, 0)
        assert connection.peer.principal == Principal("User", "alice")
        assert connection.peer.gate is None, "nothing is checked per request"
        assert connection.metadata().brokers == []


async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    async with a_connection() as connection:
        answer = connection.handshake("GSSAPI")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        assert connection.login.why_close(0) == "authentication failed"


async def test_a_token_without_a_handshake_is_refused() -> None:
    async with a_connection() as connection:
        assert connection.authenticate().error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert connection.login.why_close(0) is not None


async def test_a_refused_login_is_answered_after_a_delay_and_the_connection_serves_nothing_more() -> None:
    async with a_connection() as connection:
        connection.handshake()
        pending = connection.authenticate(b"\0alice\0wrong")
        assert isinstance(pending, DelayedResponse)
        assert pending.blocks_pipeline
        assert not pending.is_answered
        [timer] = connection.broker.timers.waiting
        assert timer.seconds == 0.1
        connection.broker.timers.fire()
        answer = answer_of(pending, ApiKey.SASL_AUTHENTICATE, 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: Invalid username or password"
        with pytest.raises(WireError, match="after a refused login"):
            connection.handshake()
        assert connection.peer.principal == ANONYMOUS
        [line] = [line for line in connection.broker.log.lines if line[1] == "authentication failed"]
        assert "wrong" not in str(line)


async def test_an_address_that_fails_again_waits_longer() -> None:
    async with a_broker(SETTINGS) as broker:
        for _ in range(3):
            connection = Connection(broker)
            connection.handshake()
            connection.authenticate(b"\0alice\0wrong")
            connection.login.closed()
        assert [timer.seconds for timer in broker.timers.waiting] == [0.1, 0.2, 0.4]


async def test_a_session_ends_unless_the_same_user_authenticates_again() -> None:
    async with a_connection(**{"listener.name.client.plain.connections.max.reauth.ms": "60000"}) as connection:
        connection.handshake()
        assert connection.authenticate().session_lifetime_ms == 60_000
        clock = connection.broker.clock
        clock.ms += 59_999
        assert connection.metadata().brokers == []
        clock.ms += 1
        with pytest.raises(WireError, match="lifetime is over"):
            connection.metadata()
        connection.handshake()
        assert connection.authenticate().error_code == ErrorCode.NONE
        assert connection.metadata().brokers == []
        connection.handshake()
        refused = connection.authenticate(b"\0bob\0secret")
        connection.broker.timers.fire()
        assert "Cannot change principals" in answer_of(refused, ApiKey.SASL_AUTHENTICATE, 2).error_message
        assert connection.peer.principal == Principal("User", "alice")


async def test_old_clients_send_tokens_in_frames_of_their_own() -> None:
    async with a_connection() as connection:
        connection.handshake(version=0)
        answer = connection.login.serve(connection.peer, memoryview(bytearray(ALICE)))
        assert answer == [b"\0\0\0\0"]
        assert connection.peer.principal == Principal("User", "alice")
        assert connection.metadata().brokers == []


async def test_a_wrong_token_in_a_frame_of_its_own_ends_the_connection() -> None:
    async with a_connection() as connection:
        connection.handshake(version=0)
        with pytest.raises(WireError, match="Invalid username or password"):
            connection.login.serve(connection.peer, memoryview(bytearray(b"\0alice\0wrong")))


async def test_so_many_connections_may_be_about_to_log_in_and_each_has_so_much_time() -> None:
    async with a_broker(SETTINGS) as broker:
        connections = [Connection(broker) for _ in range(3)]
        assert [one.is_accepted for one in connections] == [True, True, False]
        assert connections[0].login.why_close(9_999) is None
        assert connections[0].login.why_close(10_000) == "no login within 10000 ms (sordini.login.timeout.ms)"
        connections[0].login.closed()
        connections[0].login.closed()
        connections[1].handshake()
        connections[1].authenticate()
        assert connections[1].login.why_close(10_000) is None
        assert [Connection(broker).is_accepted for _ in range(3)] == [True, True, False]


def upsertion(name: str, **changes: Any) -> ScramCredentialUpsertion:
    salt, iterations = b"salt", 4_096
    password = salted("SCRAM-SHA-256", "secret", salt, iterations)
    plain = {"mechanism": 1, "iterations": iterations, "salt": salt, "salted_password": password}
    return ScramCredentialUpsertion(name=name, **(plain | changes))


async def alter(broker: UnitBroker, *, deletions: Any = (), upsertions: Any = ()) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    answer = await broker.ask_later(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {result.user: result.error_code for result in answer.results}


async def test_a_user_logs_in_by_scram_once_it_has_a_credential_and_not_after_its_deletion() -> None:
    async with a_broker(SETTINGS) as broker:
        for is_known in (False, True, False):
            if is_known:
                assert await alter(broker, upsertions=[upsertion("carol,=")]) == {"carol,=": 0}
                stored = await broker.session.get(f"/config/{user_entity('carol,=')}")
                assert b"SCRAM-SHA-256" in stored[0]
            elif broker.parts.security.users.all():
                deletion = ScramCredentialDeletion(name="carol,=", mechanism=1)
                assert await alter(broker, deletions=[deletion]) == {"carol,=": 0}
            connection = Connection(broker)
            connection.handshake("SCRAM-SHA-256")
            client = Scram("SCRAM-SHA-256", "carol,=", "secret", "nonce")
            challenge = connection.authenticate(client.first()).auth_bytes
            last = connection.authenticate(client.final(challenge))
            assert isinstance(last, DelayedResponse) is not is_known
            connection.login.closed()


async def test_before_its_first_token_proves_anything_an_unknown_user_is_answered_as_a_known_one() -> None:
    """The same shapes, the same answer each time, on this broker and on another of the cluster."""
    known, unknown = [f"known-{number}" for number in range(5)], [f"unknown-{number}" for number in range(40)]

    def challenge(broker: UnitBroker, user: str) -> tuple[bytes, int]:
        connection = Connection(broker)
        connection.handshake("SCRAM-SHA-256")
        first = connection.authenticate(Scram("SCRAM-SHA-256", user, "secret", "nonce").first()).auth_bytes
        connection.login.closed()
        fields = dict(part.partition(b"=")[::2] for part in first.split(b","))
        assert fields[b"r"].startswith(b"nonce")
        return fields[b"s"], int(fields[b"i"])

    async with a_broker(SETTINGS) as broker, a_broker(SETTINGS) as other:
        await ensure_format(broker.session)
        await alter(
            broker, upsertions=[upsertion(name, salt=b"0123456789abcdef" * 2, iterations=9_000) for name in known]
        )
        for one in (broker, other):
            await one.parts.security.load_users(broker.session)
        answers = {name: challenge(broker, name) for name in known + unknown}
        assert {(len(salt), iterations) for salt, iterations in answers.values()} == {(44, 9_000)}
        assert len({answers[name] for name in unknown}) == len(unknown)
        for one in (broker, other):
            await one.parts.security.load_users(broker.session)
            assert {name: challenge(one, name) for name in known + unknown} == answers


async def test_a_broker_without_logins_stores_no_secret() -> None:
    async with a_broker() as broker:
        await ensure_format(broker.session)
        await broker.parts.security.load_users(broker.session)
        assert await broker.session.children("/sordini") == []


async def test_users_are_described_and_wrong_changes_refused_with_the_codes_of_apache_kafka() -> None:
    async with a_broker(SETTINGS) as broker:
        codes = await alter(
            broker,
            deletions=[ScramCredentialDeletion(name="none", mechanism=1)],
            upsertions=[
                upsertion("good"),
                upsertion("few", iterations=4_095),
                upsertion("many", iterations=16_385),
                upsertion("", iterations=4_096),
                upsertion("kind", mechanism=9),
                upsertion("twice"),
                upsertion("twice"),
                upsertion("salt", salt=b""),
            ],
        )
        assert codes == {
            "none": ErrorCode.RESOURCE_NOT_FOUND,
            "good": ErrorCode.NONE,
            "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "kind": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "twice": ErrorCode.DUPLICATE_RESOURCE,
            "salt": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        }
        request = DescribeUserScramCredentialsRequest(users=None)
        answer = broker.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
        assert [(row.user, row.credential_infos[0].iterations) for row in answer.results] == [("good", 4_096)]
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in ("x", "good", "good")])
        answer = broker.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
        assert [row.error_code for row in answer.results] == [
            ErrorCode.RESOURCE_NOT_FOUND,
            ErrorCode.DUPLICATE_RESOURCE,
        ]
