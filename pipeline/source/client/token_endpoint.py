"""A token for client credentials, from an issuer's endpoint (RFC 6749, 4.4): one POST, repeated if it fails briefly."""

from __future__ import annotations

import base64
import json
import time
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sordini.pipeline.source.client.tokens import NoToken, TokenEndpoint

_SECONDS: Final = 10.0
_TRIES_MAX: Final = 3
_PAUSE_S: Final = 1.0
_ANSWER_BYTES_MAX: Final = 256 * 1024
_SERVER_ERROR: Final = 500


class _NoRedirect(HTTPRedirectHandler):
    """The secret is sent to no other place than the configured one."""

    def redirect_request(self, *_: Any) -> None:
        return None


def request_token(endpoint: TokenEndpoint) -> tuple[str, float | None]:
    """The token, and for how many seconds it is valid, if the issuer says so. Raises NoToken with a sentence."""
    form = {"grant_type": "client_credentials", **({"scope": endpoint.scope} if endpoint.scope else {})}
    login = f"{quote(endpoint.client_id, safe='')}:{quote(endpoint.client_secret, safe='')}"
    headers = {
        "Authorization": "Basic " + base64.b64encode(login.encode()).decode(),
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    request = Request(endpoint.url, urlencode(form).encode(), headers)  # noqa: S310 - the settings allow http and https.
    problem = ""
    for number in range(_TRIES_MAX):
        if number:
            time.sleep(_PAUSE_S)
        try:
            with build_opener(_NoRedirect).open(request, timeout=_SECONDS) as response:
                return _token_in(response.read(_ANSWER_BYTES_MAX), endpoint.url)
        except HTTPError as error:
            problem = f"{endpoint.url} refuses client '{endpoint.client_id}': {_reason(error)}"
            if error.code < _SERVER_ERROR:
                break
        except (URLError, OSError) as error:
            problem = f"{endpoint.url} cannot be reached: {getattr(error, 'reason', error)}"
    raise NoToken(problem)


def _reason(error: HTTPError) -> str:
    """The issuer's own words (RFC 6749, 5.2), or the status."""
    try:
        said = json.loads(error.read(_ANSWER_BYTES_MAX))
        words = said.get("error_description") or said.get("error")
    except (OSError, ValueError, AttributeError):
        words = None
    return f"{words} (HTTP {error.code})" if isinstance(words, str) else f"HTTP {error.code} {error.reason}"


def _token_in(answer: bytes, url: str) -> tuple[str, float | None]:
    try:
        found = json.loads(answer)
        token, life_s = found["access_token"], found.get("expires_in")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoToken(f"{url} answered without an access_token") from None
    if not isinstance(token, str):
        raise NoToken(f"{url} answered with an access_token that is no text")
    return token, float(life_s) if isinstance(life_s, int | float) and life_s > 0 else None
