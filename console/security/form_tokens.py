"""Tokens that only this process can have written into a form. Pure.

A token binds a purpose and its parts (a session, a plan) by an HMAC with a key that ends with the process. It is
compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac


class FormTokens:
    """Makes and checks tokens."""

    def __init__(self, key: bytes) -> None:
        """`key` is fresh random bytes."""
        self._key = key

    def token(self, purpose: str, *parts: str) -> str:
        """The token for these parts, in their order."""
        # Lengths keep ("ab", "c") apart from ("a", "bc").
        text = "".join(f"{len(part)}:{part}" for part in (purpose, *parts))
        return hmac.new(self._key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()

    def is_valid(self, given: str, purpose: str, *parts: str) -> bool:
        return hmac.compare_digest(given.encode(errors="surrogatepass"), self.token(purpose, *parts).encode())
