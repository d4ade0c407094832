"""The blocking client of the tests over TLS, and with a user: a SCRAM login like that of any other client."""

from __future__ import annotations

import secrets
import ssl
from typing import NamedTuple

from sordini.client.scram import Scram
from sordini.protocol.api import ApiKey
from sordini.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.wire_client import PATIENCE_S, Client

MECHANISM = "SCRAM-SHA-256"


class LoginRefusedError(OSError):
    """The broker does not take the user or the password."""


class User(NamedTuple):
    """Who logs in."""

    name: str
    password: str


class SecuredClient(Client):
    """A connection over TLS; with a user it is logged in.

    Raises OSError: ssl.SSLError for a broker that the authority does not vouch for, LoginRefusedError for the login.
    """

    def __init__(self, host: str, port: int, ca: str, user: User | None, patience_s: float = PATIENCE_S) -> None:
        super().__init__(host, port, patience_s)
        try:
            context = ssl.create_default_context(cafile=ca)
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
            if user is not None:
                self._log_in(user)
        except BaseException:
            self.socket.close()
            raise

    def _log_in(self, user: User) -> None:
        answer = self.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=MECHANISM))
        if answer.error_code:
            raise LoginRefusedError(f"{MECHANISM} is not offered: {answer.mechanisms}")
        scram = Scram(MECHANISM, user.name, user.password, secrets.token_urlsafe(18))
        challenge = self._exchanged(scram.first())
        scram.verify(self._exchanged(scram.final(challenge)))

    def _exchanged(self, token: bytes) -> bytes:
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            raise LoginRefusedError(answer.error_message or f"error {answer.error_code}")
        return bytes(answer.auth_bytes)
