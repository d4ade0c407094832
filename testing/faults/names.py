"""APIs and error codes as tests name them: `"Produce"`, `"PRODUCE"`, `ApiKey.PRODUCE`; `"NOT_ENOUGH_REPLICAS"`, 19."""

from __future__ import annotations

import difflib
from typing import Any, Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.served_apis import ALL_APIS
from sordini.testing.arguments import ArgumentRefused

ApiName = ApiKey | str | type
CodeName = ErrorCode | str | int
_ALLOWED: Final = "a name of the Kafka protocol"


def api_of(name: ApiName) -> ApiKey:
    """The API of a name, a key, or a request's class. Raises ArgumentRefused, which names the nearest."""
    if isinstance(name, ApiKey):
        return name
    if isinstance(name, type):
        found = next((key for key, api in ALL_APIS.items() if api.request is name), None)
        if found is not None:
            return ApiKey(found)
        name = name.__name__
    if not isinstance(name, str):
        raise ArgumentRefused("api", name, _ALLOWED)
    wanted = _plain(name)
    for key in ApiKey:
        if _plain(key.name) == wanted:
            return key
    nearest = _nearest(name, [api_text(key) for key in ApiKey])
    raise ArgumentRefused("api", name, _ALLOWED, f"there is no API {name!r}{nearest}")


def api_text(key: ApiKey) -> str:
    """As the protocol's documents write it: `FindCoordinator`."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def code_of(name: CodeName) -> ErrorCode:
    """The error code of a name or a number. Raises ArgumentRefused, which names the nearest."""
    code = _code_of(name)
    if code is ErrorCode.NONE:
        raise ArgumentRefused("code", name, "the code of an error", f"{name!r} is no error: nothing would fail")
    return code


def _code_of(name: Any) -> ErrorCode:
    if isinstance(name, int) and not isinstance(name, bool):
        try:
            return ErrorCode(name)
        except ValueError:
            known = f"allowed are {min(ErrorCode)} to {max(ErrorCode)}, or a name"
            raise ArgumentRefused("code", name, _ALLOWED, f"there is no error code {name}: {known}") from None
    if not isinstance(name, str):
        raise ArgumentRefused("code", name, _ALLOWED)
    for code in ErrorCode:
        if _plain(code.name) == _plain(name):
            return code
    nearest = _nearest(name.upper(), [code.name for code in ErrorCode])
    raise ArgumentRefused("code", name, _ALLOWED, f"there is no error code {name!r}{nearest}")


def _plain(name: str) -> str:
    return name.replace("_", "").lower().removesuffix("request")


def _nearest(name: str, known: list[str]) -> str:
    found = difflib.get_close_matches(name, known, 3, 0.5)
    return f": did you mean {' or '.join(found)}?" if found else f": allowed are {', '.join(known)}"
