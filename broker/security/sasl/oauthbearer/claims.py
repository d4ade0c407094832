"""The claims of a token whose signature is right: whether it is for this broker and valid now, and who it names. Pure.

    exp, iat     required, in seconds since 1970; nbf where it is there (RFC 7519). All with the clock skew.
    iss, aud     as configured; a token that names an audience is refused where none is configured (RFC 7519, 4.1.3)
    sub          or the configured claim: the principal, text that is neither empty nor surrounded by spaces, and
                 that has no control characters
    scope        or the configured claim, where it is there: text, or a list of texts without repetitions

Apache Kafka 3.9 has the same rules, but for a time `iat` in the future and control characters, which it accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sordini.system.named_tuple import NamedTuple

PRINCIPAL_BYTES_MAX: Final = 1_024
"""As of a user's name, see `exchanges.NAME_BYTES_MAX`."""
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, breaks of lines, and changes of the direction of text: a name with one is read as another."""
_TIME_S_MAX: Final = 2**40
"""A time beyond this is no time in seconds."""


class TokenRefused(Exception):
    """A token is not accepted; the reason is for the log, and has no part of the token but names and times."""


class AcceptedToken(NamedTuple):
    """Who a token names, and until when it is valid."""

    principal: str
    expires_ms: int
    """On the wall clock; without the clock skew."""


class TokenRules(NamedTuple):
    """What a listener requires of tokens."""

    issuer: str | None = None
    """None: any."""
    audiences: frozenset[str] = frozenset()
    """One of them must be named; empty: no token may name any."""
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"


def check_claims(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> AcceptedToken:
    """Decide about the claims at `now_ms` on the wall clock. Raises TokenRefused."""
    now_s, skew_s = now_ms / 1000, rules.clock_skew_s
    expires_s, issued_s = _required_time(claims, "exp"), _required_time(claims, "iat")
    if now_s - skew_s >= expires_s:
        raise TokenRefused(f"it expired {round(now_s - expires_s)} s ago")
    not_before_s = _required_time(claims, "nbf") if "nbf" in claims else issued_s
    if now_s + skew_s < max(issued_s, not_before_s):
        raise TokenRefused(f"it is valid in {round(max(issued_s, not_before_s) - now_s)} s only")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("its issuer (iss) is not the expected one")
    _check_audience(claims, rules.audiences)
    _check_scope(claims, rules.scope_claim)
    return AcceptedToken(_principal(claims, rules.subject_claim), int(expires_s * 1000))


def _required_time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):  # A bool is an int to Python.
        raise TokenRefused(f"it has no time {name}")
    if not 0 <= value <= _TIME_S_MAX:  # Nor NaN and infinities, which Python's reader of JSON knows.
        raise TokenRefused(f"its time {name} is out of range")
    return value


def _check_audience(claims: Mapping[str, Any], expected: frozenset[str]) -> None:
    value = claims.get("aud")
    named = [value] if isinstance(value, str) else value
    if named is None and not expected:
        return
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise TokenRefused("it has no audience (aud), or one that is not text")
    if expected.isdisjoint(named):
        raise TokenRefused("its audience (aud) is not an expected one" if expected else "no audience (aud) is expected")


def _check_scope(claims: Mapping[str, Any], name: str) -> None:
    value = claims.get(name, "unused")
    scopes = [value] if isinstance(value, str) else value
    if not isinstance(scopes, list) or not all(isinstance(scope, str) and scope.strip() for scope in scopes):
        raise TokenRefused(f"its claim {name} is neither text nor a list of texts")
    if len({scope.strip() for scope in scopes}) != len(scopes):
        raise TokenRefused(f"its claim {name} repeats a scope")


def _principal(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value or value != value.strip():
        raise TokenRefused(f"its claim {name}, the principal, is missing, empty, or surrounded by spaces")
    if _CONTROL.search(value) is not None:
        raise TokenRefused(f"its claim {name}, the principal, has control characters")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise TokenRefused(f"its claim {name}, the principal, is not Unicode") from None
    if size > PRINCIPAL_BYTES_MAX:
        raise TokenRefused(f"its claim {name}, the principal, has more than {PRINCIPAL_BYTES_MAX} bytes")
    return value
