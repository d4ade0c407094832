"""Logins: whatever a connection of a SASL listener sends, only who proves a password is let in, and as that user.

input = steps: uint8 kind | uint8 about | uint16 size | bytes
kinds: a frame of any bytes; SaslHandshake; SaslAuthenticate with a token; SCRAM's first message; its final one, right
       but for one byte; a token as a frame of its own; Metadata
"""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Iterator
from typing import Any, Final

from sordini.broker.network.ports import DelayedResponse, Peer
from sordini.broker.security.sasl.login import Login
from sordini.broker.security.sasl.scram_credential import credential_of, salted
from sordini.client.scram import Scram, ScramError
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import request_header
from sordini.protocol.messages.metadata import MetadataRequest
from sordini.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from sordini.protocol.served_apis import APIS
from tests.fuzz.brokers import Brokers
from tests.fuzz.target import Broken
from tests.support.unit_broker import UnitBroker, joined

ANY, HANDSHAKE, TOKEN, FIRST, FINAL, RAW, METADATA = range(7)
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "")
LINE: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";'
SETTINGS: Final = {
    "listeners": "PLAINTEXT://:9092,CLIENT://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.client.plain.sasl.jaas.config": LINE,
    "connection.failed.authentication.delay.ms": "0",
}
PASSWORDS: Final = {b"alice": b"secret", b"bob": b"other"}
STEPS_OF_A_BROKER: Final = 20_000
ITERATIONS: Final = 4_096
SALT: Final = b"pepper-and-salt"


def steps_of(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    position = 0
    while len(data) - position >= 4:
        kind, about, size = struct.unpack_from(">BBH", data, position)
        yield kind % 7, about, data[position + 4 : position + 4 + size]
        position += 4 + size


def step(kind: int, about: int = 0, data: bytes = b"") -> bytes:
    return struct.pack(">BBH", kind, about, len(data)) + data


class Connection:
    """One connection and what it has proved."""

    def __init__(self, broker: UnitBroker) -> None:
        self._broker = broker
        self.peer = Peer("CLIENT", "SASL_PLAINTEXT", "192.0.2.1", 4711, "connection-1")
        logins = broker.parts.security.logins
        assert logins is not None
        assert logins.begin(self.peer), "the one before has ended"
        assert self.peer.login is not None
        login = self.peer.login
        assert isinstance(login, Login)
        self.login = login
        self.proved: set[str] = set()
        """Users whose password was sent or proved on this connection."""
        self._scram: Scram | None = None
        self._challenge = b""
        self._last_mechanism = ""
        self._sends_tokens = False
        """Whether the next frame was a token by the last handshake, whatever it looks like."""

    def take(self, kind: int, about: int, data: bytes) -> None:
        """One step. Raises WireError where the connection is closed."""
        if kind == HANDSHAKE:
            self._last_mechanism = MECHANISMS[about % len(MECHANISMS)] if not data else data.decode(errors="replace")
            self._challenge = b""
            self._sends_tokens = about >> 7 == 0
            self._ask(ApiKey.SASL_HANDSHAKE, about >> 7, SaslHandshakeRequest(mechanism=self._last_mechanism))
        elif kind == TOKEN:
            self._token(about, data)
        elif kind == FIRST:
            user = ("alice", "bob", "nobody")[about % 3]
            self._scram = Scram(self._last_mechanism, user, "secret", "theirs") if "SCRAM" in self._mechanism else None
            if self._scram is not None:
                self._token(2, self._scram.first())
        elif kind == FINAL:
            self._final(about, data)
        elif kind == METADATA:
            self._ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
            if not self.login.is_complete and not self._sends_tokens:
                raise Broken("a request before the login is served")
        else:
            self._note_plain(data)
            self._send(memoryview(bytearray(data)))

    @property
    def _mechanism(self) -> str:
        return self._last_mechanism if self._last_mechanism in MECHANISMS[:3] else ""

    def _final(self, about: int, data: bytes) -> None:
        if self._scram is None:
            return
        try:
            right = self._scram.final(self._challenge)
        except ScramError:
            return
        sent = bytearray(right)
        if data:
            sent[about % len(sent)] ^= data[0]
        if _means(bytes(sent)) == _means(right):
            self.proved.add("alice")  # Whose password this is; anybody else's is another.
        self._token(2, bytes(sent))

    def _token(self, about: int, token: bytes) -> None:
        self._note_plain(token)
        answer = self._ask(ApiKey.SASL_AUTHENTICATE, about % 3, SaslAuthenticateRequest(auth_bytes=token))
        self._challenge = bytes(answer.auth_bytes) if answer is not None else b""

    def _note_plain(self, token: bytes) -> None:
        for user, password in PASSWORDS.items():
            for authorization in (b"", user):
                right = authorization + b"\0" + user + b"\0" + password
                # As a token; or inside of a request that was sent byte by byte.
                if (
                    token == right
                    or struct.pack(">i", len(right)) + right in token
                    or bytes([len(right) + 1]) + right in token
                ):
                    self.proved.add(user.decode())

    def _ask(self, key: ApiKey, version: int, message: Any) -> Any:
        frame = request_header(APIS[key], version, 77, "fuzz") + codecs.encode(message, version)
        sent = self._send(memoryview(bytearray(frame)))
        if sent is None:
            return None
        _, position = struct.unpack_from(">i", sent, 4), 9 if version >= APIS[key].flexible_from else 8
        return codecs.decode(APIS[key].response, version, memoryview(sent), position)[0]

    def _send(self, frame: memoryview) -> bytes | None:
        service = self.peer.gate or self._broker.parts.dispatcher
        served = service.serve(self.peer, frame)
        if isinstance(served, DelayedResponse):
            served = served.parts
        return None if served is None else joined(list(served))

    def judge(self) -> None:
        """A login is complete only for a peer that has proved a password, and as that user."""
        user = self.peer.principal.name if self.login.is_complete else ""
        if user and user not in self.proved:
            raise Broken(f"logged in as {user!r} without the password")
        if not user and self.peer.gate is None:
            raise Broken("not logged in, and served")


def _means(final: bytes) -> tuple[bytes, bytes] | None:
    """Everything but the proof, and the proof: its last letter has bits that mean nothing."""
    head, found, proof = final.rpartition(b",p=")
    try:
        return (head, base64.b64decode(proof, validate=True)) if found else None
    except ValueError:
        return None


class Logins:
    name = "logins"
    share = 0.06
    instrumented = ("sordini.broker.security", "sordini.protocol.messages.sasl")

    def __init__(self) -> None:
        self._brokers = Brokers(SETTINGS, STEPS_OF_A_BROKER, _give_credentials)

    def draw(self, chance: random.Random) -> bytes:
        mechanism = chance.randrange(3)
        version = chance.choice((0, 128, 128))
        steps = [step(HANDSHAKE, mechanism | version)]
        if mechanism == 0:
            tokens = (
                b"\0alice\0secret",
                b"alice\0alice\0secret",
                b"bob\0alice\0secret",
                b"\0bob\0secret",
                b"\0\0",
                b"\0alice\0",
            )
            steps.append(step(TOKEN if version else RAW, chance.randrange(3), chance.choice(tokens)))
        else:
            steps.append(step(FIRST, chance.choice((0, 0, 0, 1, 2))))
            steps.append(step(FINAL, chance.randrange(256), chance.choice((b"", chance.randbytes(1)))))
        steps.append(step(METADATA))
        if chance.random() < 0.3:
            chance.shuffle(steps)
        if chance.random() < 0.3:
            steps.insert(chance.randrange(len(steps) + 1), step(ANY, 0, chance.randbytes(chance.choice((0, 3, 20)))))
        if chance.random() < 0.3:
            steps += steps[chance.randrange(len(steps)) :]
        return b"".join(steps)

    def run(self, data: bytes) -> int:
        return self._brokers.run(lambda broker: self._judged(broker, data))

    def close(self) -> None:
        self._brokers.close()

    async def _judged(self, broker: UnitBroker, data: bytes) -> int:
        connection = Connection(broker)
        count = 0
        try:
            for kind, about, given in steps_of(data):
                count += 1
                try:
                    connection.take(kind, about, given)
                except WireError:
                    break
                finally:
                    connection.judge()
        finally:
            connection.login.closed()
        errors = broker.log.at("error")
        if errors:
            raise Broken(f"a handler failed: {errors[0]}")
        return max(count, 1)


async def _give_credentials(broker: UnitBroker) -> None:
    credentials = {
        mechanism: credential_of(mechanism, salted(mechanism, "secret", SALT, ITERATIONS), SALT, ITERATIONS).text
        for mechanism in MECHANISMS[1:3]
    }
    broker.parts.security.users.changed("users/alice", credentials)
