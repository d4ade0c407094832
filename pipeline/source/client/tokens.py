"""Where the tokens of OAUTHBEARER come from (KIP-255, RFC 7628): a Python function, an issuer, or a file.

    kafka.sasl.oauthbearer.token.callback      module:function of the user's; kafka.sasl.oauthbearer.config is its
                                               argument, if given. It returns a token, or a token and when it ends
                                               (seconds or milliseconds since 1970): `aws_msk_iam_sasl_signer` has one
    kafka.sasl.oauthbearer.token.endpoint.url  http(s): client credentials are exchanged for a token there (RFC 6749,
                                               4.4); file: the token is in it, renewed by another program

A source is carried to Spark's workers, where the function is imported and called. A token is kept by the process until
shortly before it ends, and dropped when a broker refuses it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from sordini.client.authentication import OAUTHBEARER, SaslCredentials
from sordini.pipeline.errors import BadSetting

_TOKEN: Final = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_TOKEN_BYTES_MAX: Final = 64 * 1024
_KEPT_PART: Final = 0.8
"""Of the rest of its life a token is used for new connections; brokers end sessions with their tokens (KIP-368)."""
_MILLISECONDS_FROM: Final = 10**11
"""A time beyond this is in milliseconds: in seconds it would be the year 5138."""


class NoToken(ValueError):
    """There is no token to log in with; the text is a sentence without secrets."""


class TokenEndpoint(NamedTuple):
    """An issuer, and what is exchanged for a token."""

    url: str
    client_id: str
    client_secret: str
    scope: str = ""

    def __repr__(self) -> str:
        return f"TokenEndpoint({self.url!r}, {self.client_id!r})"


@dataclass(frozen=True)
class TokenSource:
    """One of callback, file and endpoint. Can be pickled; its repr has no secret."""

    callback: str = ""
    argument: str | None = None
    path: str = ""
    endpoint: TokenEndpoint | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    """Further pairs for the broker, such as Confluent Cloud's logicalCluster."""

    def credentials(self) -> SaslCredentials:
        """What to log in with now. Raises NoToken with a sentence, OSError for a file, BadSetting for an import."""
        return SaslCredentials(OAUTHBEARER, "", _KEPT.token(self, time.time()), self.extensions)

    def forget(self) -> None:
        """A broker has refused the token: the next login asks for another one."""
        _KEPT.forget(self)


class Token(NamedTuple):
    """A token and when it ends, in seconds since 1970; None: not known."""

    text: str
    ends_s: float | None


class KeptTokens:
    """Tokens that are used again while they are valid. Times are in seconds since 1970."""

    def __init__(self) -> None:
        self._tokens: dict[TokenSource, tuple[Token, float]] = {}

    def token(self, source: TokenSource, now_s: float) -> str:
        """A kept token, or a new one. Raises what `TokenSource.credentials` raises."""
        kept = self._tokens.get(source)
        if kept is not None and now_s < kept[1]:
            return kept[0].text
        token = _requested(source)
        if token.ends_s is not None:
            if token.ends_s <= now_s:
                raise NoToken(f"{_name(source)} gave a token that has ended {now_s - token.ends_s:.0f} s ago")
            self._tokens[source] = (token, now_s + (token.ends_s - now_s) * _KEPT_PART)
        return token.text

    def forget(self, source: TokenSource) -> None:
        """Drop the token of a source."""
        self._tokens.pop(source, None)


_KEPT: Final = KeptTokens()


def _name(source: TokenSource) -> str:
    """For sentences."""
    if source.callback:
        return f"the callback {source.callback}"
    return source.path or (source.endpoint.url if source.endpoint else "nothing")


def _requested(source: TokenSource) -> Token:
    if source.callback:
        return _of_callback(source)
    if source.path:
        return Token(checked(Path(source.path).read_text("ascii", errors="replace").strip(), source.path), None)
    assert source.endpoint is not None, "it is one of the three"
    from sordini.pipeline.source.client.token_endpoint import request_token  # Late: most clients need no HTTP.

    text, life_s = request_token(source.endpoint)
    ends_s = None if life_s is None else time.time() + life_s
    return Token(checked(text, source.endpoint.url), ends_s)


def _of_callback(source: TokenSource) -> Token:
    function = _imported(source.callback)
    try:
        found = function() if source.argument is None else function(source.argument)
    except Exception as error:  # All of them - the function is the user's.
        raise NoToken(f"{_name(source)} failed: {type(error).__name__}: {error}") from error
    token, *rest = found if isinstance(found, tuple) and found else (found,)
    if not isinstance(token, str):
        raise NoToken(f"{_name(source)} returned {type(token).__name__}, and has to return a token as text")
    ends = rest[0] if rest else None
    if ends is not None and (isinstance(ends, bool) or not isinstance(ends, int | float)):
        raise NoToken(
            f"{_name(source)} returned {type(ends).__name__} as the token's end, and has to return seconds since 1970"
        )
    ends_s = None if ends is None else ends / 1000 if ends >= _MILLISECONDS_FROM else float(ends)
    return Token(checked(token, _name(source)), ends_s)


def _imported(callback: str) -> Callable[..., Any]:
    module_name, _, function_name = callback.partition(":")
    try:
        function = getattr(import_module(module_name), function_name)
    except Exception as error:  # All of them - the module is the user's, and anything may happen in it.
        raise BadSetting(f"kafka.sasl.oauthbearer.token.callback={callback} cannot be imported: {error}") from error
    if not callable(function):
        kind = type(function).__name__
        raise BadSetting(f"kafka.sasl.oauthbearer.token.callback={callback} is no function, but {kind}")
    found: Callable[..., Any] = function
    return found


def checked(token: str, origin: str) -> str:
    """A token as it may be sent. Raises NoToken, which shows nothing of it."""
    if len(token) > _TOKEN_BYTES_MAX or _TOKEN.fullmatch(token) is None:
        raise NoToken(f"{origin} gave no bearer token: allowed are letters, digits and -_.~+/, at most 64 KiB")
    return token
