"""The blocking client of the tests over TLS, and with a user: a SCRAM login like that of any other client."""

from __future__ import annotations

import secrets
import ssl
import time
from typing import NamedTuple

from sordini.client.authentication import SaslCredentials, authenticate
from sordini.client.blocking import BlockingConnection, SocketTransport
from sordini.client.connection import ClientConnection
from sordini.client.errors import ClientError, Unauthorized
from sordini.client.scram import ScramError
from sordini.client.versions import negotiate
from tests.support.wire_client import PATIENCE_S, Client

MECHANISM = "SCRAM-SHA-256"
RESPONSE_BYTES_MAX = 1_000_000


class LoginRefusedError(OSError):
    """The broker does not take the user or the password."""


class UnknownSignatureError(Exception):
    """The broker accepted the proof, and does not know the password: it accepts any."""


def login_error(failed: Unauthorized) -> Exception:
    """Who refused: the broker, or the client, which verifies the signature of a broker that has accepted its proof."""
    if isinstance(failed.__context__, ScramError):
        return UnknownSignatureError(str(failed))
    return LoginRefusedError(str(failed))


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
                self._log_in(user, patience_s)
        except BaseException:
            self.socket.close()
            raise

    def _log_in(self, user: User, patience_s: float) -> None:
        protocol = ClientConnection("test", RESPONSE_BYTES_MAX)
        login = BlockingConnection(SocketTransport(self.socket), protocol, time.monotonic, patience_s)
        credentials = SaslCredentials(MECHANISM, user.name, user.password)
        try:
            versions = login.run(negotiate())
            login.run(authenticate(credentials, versions, "the broker", secrets.token_urlsafe(18)))
        except Unauthorized as refused:
            raise login_error(refused) from None
        except ClientError as problem:
            raise ConnectionError(str(problem)) from None
        self.socket.settimeout(patience_s)
