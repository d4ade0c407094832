"""JAAS lines in the settings of brokers and clients, as far as PLAIN, SCRAM and OAUTHBEARER need them. Pure.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="x" user_alice="y";

No module is loaded: its class name must be one of those that are known, and only says which mechanism is meant
(CVE-2023-25194).
"""

from __future__ import annotations

import re
from typing import Final

from sordini.system.named_tuple import NamedTuple

MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}
"""The mechanisms of each module."""
TOKEN_FILE: Final = "oauth.access.token.location"  # noqa: S105 - a name.
"""The option of a client's OAUTHBEARER with the path of a token, named as Strimzi's login module names it."""
USER: Final = "user_"
"""Options that begin so name a user of PLAIN."""
_HEAD: Final = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE)
_OPTION: Final = re.compile(r"""\s+([\w.@-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")
_END: Final = re.compile(r"\s*;\s*\Z")


class JaasLine(NamedTuple):
    """What a line says."""

    username: str | None
    """This broker's own name, for its connections to others."""
    password: str | None
    users: dict[str, str]
    """Passwords of the users of PLAIN."""
    token_file: str | None
    """Where a client's token is, for OAUTHBEARER."""

    def __repr__(self) -> str:
        return f"JaasLine(username={self.username!r}, users={len(self.users)})"


def read_jaas(key: str, text: str, mechanism: str) -> JaasLine:
    """Read a line for a mechanism. Raises ValueError, which shows no part of the line but its class."""
    head = _HEAD.match(text)
    if head is None:
        raise ValueError(f'{key}=(hidden) is not valid: allowed is MODULE required OPTION="VALUE" ...;')
    if mechanism not in MODULES.get(head[1], ()):
        modules = ", ".join(name for name, mechanisms in MODULES.items() if mechanism in mechanisms)
        raise ValueError(f"{key}={head[1]}... is not valid for {mechanism}: allowed is {modules}")
    options: dict[str, str] = {}
    position = head.end()
    while (option := _OPTION.match(text, position)) is not None:
        options[option[1]] = _unquoted(option[2])
        position = option.end()
    if _END.match(text, position) is None:
        raise ValueError(f'{key}=(hidden) is not valid: allowed are options NAME="VALUE" and a semicolon at the end')
    users = {name.removeprefix(USER): value for name, value in options.items() if name.startswith(USER)}
    return JaasLine(options.get("username"), options.get("password"), users, options.get(TOKEN_FILE))


def _unquoted(text: str) -> str:
    if text[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
