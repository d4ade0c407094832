"""Passwords in the coordination store, encrypted as Apache Kafka 3.9 writes and reads them (KIP-226).

    name:value,...   keyFactoryAlgorithm, cipherAlgorithm, keyLength, iterations, passwordLength (of UTF-16 units),
                     and in base64: salt (256 bytes), initializationVector (16), encryptedPassword

The key is derived from `password.encoder.secret` and the salt by PBKDF2; the cipher is AES in CBC mode with padding.
The format has no signature: a write to the store can replace a password, and a read of it does not show one.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from sordini.broker.configuration.keys.password_encoder_keys import (
    CIPHER,
    ITERATIONS_MAX,
    KEY_FACTORIES,
    KEY_LENGTHS,
    PASSWORDS_MAX,
    PasswordEncoderSettings,
)
from sordini.broker.configuration.settings import ConfigError

SALT_BYTES: Final = 256
BLOCK_BYTES: Final = 16
REMEMBERED_MAX: Final = PASSWORDS_MAX
"""Decoded passwords that are remembered: a layer is read again at each change, and keys take long to derive."""


class PasswordEncoder:
    """Encrypts with the secret, decrypts with it or the former one; without a secret it does neither."""

    def __init__(self, settings: PasswordEncoderSettings, random: Callable[[int], bytes] = os.urandom) -> None:
        self._settings = settings
        self._random = random
        given = settings.password_encoder_secret, settings.password_encoder_old_secret
        self._secrets = [one.text for one in given if one is not None and one.text]
        """The one that encrypts, if there is one, and the former one."""
        self._decoded = lru_cache(REMEMBERED_MAX)(self._decode)

    @property
    def can_encode(self) -> bool:
        secret = self._settings.password_encoder_secret
        return secret is not None and bool(secret.text)

    @property
    def can_renew(self) -> bool:
        """Whether there are both secrets."""
        return self.can_encode and len(self._secrets) > 1

    def renew(self, text: str) -> str | None:
        """The same password encrypted with the secret, if only the former one decrypts it; `can_renew` is true."""
        assert self.can_renew, "one secret"
        fields, (secret, former) = _fields(text), self._secrets
        if _decrypted_or_none(fields, secret) is not None:
            return None
        password = _decrypted_or_none(fields, former)
        return None if password is None else self.encode(password)

    def encode(self, password: str) -> str:
        """Encrypt a password; `can_encode` is true."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.padding import PKCS7

        assert self.can_encode, "no secret"
        factory = self._settings.password_encoder_keyfactory_algorithm or next(iter(KEY_FACTORIES))
        bits, iterations = self._settings.password_encoder_key_length, self._settings.password_encoder_iterations
        salt, vector = self._random(SALT_BYTES), self._random(BLOCK_BYTES)
        padder = PKCS7(BLOCK_BYTES * 8).padder()
        padded = padder.update(password.encode()) + padder.finalize()
        key = _derive(self._secrets[0], factory, bits, salt, iterations)
        encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
        fields = {
            "keyFactoryAlgorithm": factory,
            "cipherAlgorithm": CIPHER,
            "keyLength": bits,
            "salt": _base64(salt),
            "iterations": iterations,
            "encryptedPassword": _base64(encryptor.update(padded) + encryptor.finalize()),
            "passwordLength": _java_length(password),
            "initializationVector": _base64(vector),
        }
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """The password. Raises ConfigError, which says why it cannot be read and shows no part of it."""
        if not self._secrets:
            raise ConfigError("it is encrypted, and password.encoder.secret is not set")
        return self._decoded(text)

    def _decode(self, text: str) -> str:
        fields = _fields(text)
        for secret in self._secrets:
            password = _decrypted_or_none(fields, secret)
            if password is not None:
                return password
        or_former = ", nor with password.encoder.old.secret" if self.can_renew else ""
        raise ConfigError(f"it cannot be decrypted with password.encoder.secret{or_former}")


def _fields(text: str) -> dict[str, str]:
    return dict(part.strip().rpartition(":")[::2] for part in text.split(","))


def _decrypted_or_none(fields: Mapping[str, str], secret: str) -> str | None:
    try:
        return _decrypted(fields, secret)
    except (ValueError, KeyError):  # Padding, UTF-8 or length: mostly that of another secret.
        return None


def _decrypted(fields: Mapping[str, str], secret: str) -> str:
    """Raises ValueError and KeyError for what is no password of this secret."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    factory, bits, iterations = fields["keyFactoryAlgorithm"], int(fields["keyLength"]), int(fields["iterations"])
    is_known = factory in KEY_FACTORIES and bits in KEY_LENGTHS and fields["cipherAlgorithm"] == CIPHER
    if not is_known or not 0 < iterations <= ITERATIONS_MAX:
        raise ValueError(factory)
    key = _derive(secret, factory, bits, _bytes(fields["salt"]), iterations)
    decryptor = Cipher(algorithms.AES(key), modes.CBC(_bytes(fields["initializationVector"]))).decryptor()
    padded = decryptor.update(_bytes(fields["encryptedPassword"])) + decryptor.finalize()
    unpadder = PKCS7(BLOCK_BYTES * 8).unpadder()
    password = (unpadder.update(padded) + unpadder.finalize()).decode()
    length = _java_length(password)
    if length != int(fields["passwordLength"]):
        raise ValueError("another length")
    return password


def _derive(secret: str, factory: str, bits: int, salt: bytes, iterations: int) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

    algorithm = getattr(hashes, KEY_FACTORIES[factory])()
    return PBKDF2HMAC(algorithm, bits // 8, salt, iterations).derive(secret.encode())


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("no base64") from None
