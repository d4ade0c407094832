"""How a client is to reach listeners that are not PLAINTEXT: the protocol, TLS, and what it logs in with.

The keys are those of a properties file as Apache Kafka's tools take it: `security.protocol`, `sasl.mechanism`,
`sasl.jaas.config` and `sasl.oauthbearer.token.endpoint.url`; other keys are skipped. The token of OAUTHBEARER is in a
file that other programs renew: it is read for each login. What reads the file and makes the TLS context of the keys
`ssl.*` is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from sordini.client.authentication import MECHANISMS, OAUTHBEARER, SaslCredentials
from sordini.client.file_urls import check_file, file_of
from sordini.client.jaas import TOKEN_FILE, read_jaas
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.client.cluster_core import Login
    from sordini.client.tls.contexts import Context

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a name.
_TOKEN: Final = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_TOKEN_BYTES_MAX: Final = 16_384

ReadFile = Callable[[str], bytes]
"""The bytes of a file; raises OSError."""


class ClientSecurity(NamedTuple):
    """How to connect, and what to log in with."""

    protocol: str
    tls: Context | None
    """None without TLS."""
    sasl: Login | None = None
    """None without a login."""


PLAINTEXT: Final = ClientSecurity("PLAINTEXT", None)


def security_of(
    entries: Mapping[str, str],
    read: ReadFile,
    context_of: Callable[[Mapping[str, str]], Context],
    *,
    has_login: bool = True,
) -> ClientSecurity:
    """What the entries of a properties file ask for; `context_of` takes them where the protocol has TLS.

    Without `has_login` the entries have no name and no password: users of the program log in with their own. Raises
    ValueError, which shows no secret, and OSError for a file with a token that cannot be read.
    """
    protocol = entries.get(_PROTOCOL, "PLAINTEXT").strip()
    if protocol not in PROTOCOLS:
        raise ValueError(f"{_PROTOCOL}={protocol!r} is not valid: allowed is one of {', '.join(PROTOCOLS)}")
    sasl = None
    if protocol.startswith("SASL") and has_login:
        sasl = _login_of(entries, read)
        sasl()  # A file that is missing is reported now.
    return ClientSecurity(protocol, context_of(entries) if protocol.endswith("SSL") else None, sasl)


def _login_of(entries: Mapping[str, str], read: ReadFile) -> Login:
    """The name and the password of a file, or its token."""
    mechanism = entries.get(_MECHANISM, "")
    if mechanism == OAUTHBEARER:
        path = _token_file(entries)
        return lambda: SaslCredentials(OAUTHBEARER, "", _token(path, read(path)))
    if mechanism not in MECHANISMS:
        known = ", ".join((*MECHANISMS, OAUTHBEARER))
        raise ValueError(f"{_MECHANISM}={mechanism!r} is not valid: allowed is one of {known}")
    line = read_jaas(_JAAS, entries.get(_JAAS, ""), mechanism)
    if line.username is None or line.password is None:
        raise ValueError(f"{_JAAS}=(hidden) is not valid: allowed is a line with username and password")
    credentials = SaslCredentials(mechanism, line.username, line.password)
    return lambda: credentials


def _token_file(entries: Mapping[str, str]) -> str:
    """Where the token is."""
    url, line = entries.get(_TOKEN_URL, ""), entries.get(_JAAS, "")
    path = read_jaas(_JAAS, line, OAUTHBEARER).token_file if line else None
    if bool(url) == bool(path):
        raise ValueError(
            f"{_MECHANISM}={OAUTHBEARER} needs one file with a token: allowed is {_TOKEN_URL}=file:///path, or "
            f"{_JAAS} with the option {TOKEN_FILE}"
        )
    if path:
        return path
    if not url.startswith("file:"):
        raise ValueError(f"{_TOKEN_URL}={url!r} is not valid: allowed is file:///path; no token is requested here")
    check_file(_TOKEN_URL, url)
    return file_of(url)


def _token(path: str, data: bytes) -> str:
    """The token in a file."""
    token = data.decode("ascii", errors="replace").strip()
    if len(data) > _TOKEN_BYTES_MAX or _TOKEN.fullmatch(token) is None:
        raise ValueError(f"{path} is not valid: allowed is a bearer token, at most {_TOKEN_BYTES_MAX} bytes")
    return token
