"""Functions that make tokens for clients, as applications have them: right ones, and such as fail."""

from __future__ import annotations

import itertools
import os
import time

from tests.support.token_issuer import claims, token

CALLS = itertools.count()
NO_FUNCTION = 1


def alices(life_s: str = "600") -> tuple[str, float]:
    """A token of alice and when it ends."""
    next(CALLS)
    ends_s = int(time.time()) + int(life_s)
    return token(claims(time.time(), exp=ends_s)), ends_s


def in_milliseconds(text: str) -> tuple[str, int]:
    """As Amazon's signer says when a token ends."""
    next(CALLS)
    return text, int((time.time() + 600) * 1000)


def text_alone() -> str:
    next(CALLS)
    return "a.b.c"


def from_environment() -> str:
    return os.environ["SORDINI_TEST_TOKEN"]


def of_another_issuer() -> tuple[str, float]:
    return token(claims(time.time(), iss="https://other.example")), time.time() + 600


def ended() -> tuple[str, float]:
    return "a.b.c", time.time() - 60


def raises() -> str:
    raise RuntimeError("the vault is sealed")


def no_text() -> object:
    return {"token": "secret"}


def no_time() -> object:
    return "a.b.c", "tomorrow"


def no_token() -> str:
    return "two words"
