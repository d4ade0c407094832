"""SaslHandshake and SaslAuthenticate: the choice of a mechanism, and the mechanism's own bytes.

SaslHandshake v1 wraps what follows in SaslAuthenticate (KIP-152). SaslAuthenticate v1 returns how long the session
lasts (KIP-368); v2 is flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, NEVER, message, since
from sordini.protocol.primitives import Array, Bytes, Int16, Int64, NullableString, String


@message(versions=range(2), flexible=NEVER)
class SaslHandshakeRequest:
    """The mechanism the client would like to use."""

    mechanism: String = ""


@message(versions=range(2), flexible=NEVER)
class SaslHandshakeResponse:
    """Whether the mechanism is enabled, and the enabled mechanisms."""

    error_code: Int16 = 0
    mechanisms: Array[String] = EMPTY


@message(versions=range(3), flexible=2)
class SaslAuthenticateRequest:
    """One step of the mechanism."""

    auth_bytes: Bytes = b""


@message(versions=range(3), flexible=2)
class SaslAuthenticateResponse:
    """The answer to that step."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = since(1, default=0)  # 0: as long as the connection.
