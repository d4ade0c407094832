"""The keys of the encryption of passwords that are changed at run time and kept in the coordination store (KIP-226)."""

# ruff: noqa: RUF009 - a `Password` is not changed, as the values of the other keys.

from __future__ import annotations

import dataclasses
from typing import Final

from sordini.broker.configuration.settings import Password, ValueKind, ValueRule, integer, one_of, password, setting

KEY_FACTORIES: Final = {
    "PBKDF2WithHmacSHA512": "SHA512",
    "PBKDF2WithHmacSHA256": "SHA256",
    "PBKDF2WithHmacSHA1": "SHA1",
}
"""The hash of each."""
CIPHER: Final = "AES/CBC/PKCS5Padding"
KEY_LENGTHS: Final = (128, 192, 256)
ITERATIONS_MAX: Final = 100_000
"""Of the store, too. A key is derived on the event loop, which takes some 50 ms then and 3 ms by default."""
PASSWORDS_MAX: Final = 64
"""Of one broker in the store; further ones are refused, and ignored where another tool wrote them."""


def _key_length(text: str) -> int:
    if text not in map(str, KEY_LENGTHS):
        raise ValueError(text)
    return int(text)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class PasswordEncoderSettings:
    """Settings of the encoder of passwords."""

    password_encoder_secret: Password | None = setting(
        "password.encoder.secret",
        password,
        None,
        "Encrypts passwords that AlterConfigs sets and the coordination store keeps; unset: they are refused.",
    )
    password_encoder_old_secret: Password | None = setting(
        "password.encoder.old.secret",
        password,
        None,
        "The former secret: it decrypts what `password.encoder.secret` does not.",
    )
    password_encoder_keyfactory_algorithm: str | None = setting(
        "password.encoder.keyfactory.algorithm",
        one_of(*KEY_FACTORIES),
        None,
        "How the key is derived from the secret; unset: PBKDF2WithHmacSHA512.",
    )
    password_encoder_cipher_algorithm: str = setting(
        "password.encoder.cipher.algorithm", one_of(CIPHER), CIPHER, "The cipher of these passwords."
    )
    password_encoder_key_length: int = setting(
        "password.encoder.key.length",
        ValueRule(ValueKind.INT, "one of 128, 192, 256", _key_length),
        128,
        "The length of the key in bits.",
    )
    password_encoder_iterations: int = setting(
        "password.encoder.iterations",
        integer(1024, ITERATIONS_MAX),
        4096,
        "How often the secret is hashed for the key.",
    )
