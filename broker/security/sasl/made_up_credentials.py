"""The credential with which a login of an unknown user is answered, so that no answer tells which users exist. Pure.

A client that begins a login by SCRAM is sent a salt and a number of iterations. A made-up credential is drawn like the
real ones of the cluster:

    shape    iterations, length and kind of the salt: one of those that real credentials have, as often as they have it
    salt     of that kind and length; the same at each login, on each broker, after each start

Both follow from the name and a secret that the brokers of a cluster share. The shape is chosen by weighted rendezvous
hashing: when a user is made or deleted, the fewest possible names change theirs. A name that does has another salt
from then on, as a user has whose password was changed.
"""

from __future__ import annotations

import heapq
import hmac
import math
import string
from collections import Counter
from enum import Enum
from typing import Final, assert_never

from sordini.broker.security.sasl.scram_credential import (
    DEFAULT_ITERATIONS,
    DEFAULT_SALT_BYTES,
    HASHES,
    ScramCredential,
)
from sordini.system.named_tuple import NamedTuple

SHAPES_MAX: Final = 64
"""The most frequent ones of a mechanism are drawn from: one hash each, at every login."""
_JAVA_END: Final = 2**130
_HEX: Final = "0123456789abcdef"
_BASE_36: Final = string.digits + string.ascii_lowercase
_BASE_62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SPARE_BYTES: Final = 16
"""So many more random bytes than a range needs leave no bias that could be measured."""


class SaltKind(Enum):
    """What the bytes of a salt look like; the first that fits a salt is its kind."""

    HEX = "text of hexadecimal digits"
    JAVA = "a number of up to 130 bits to base 36, as Apache Kafka's tools and its admin client make salts"
    BASE_36 = "text of digits and small letters"
    BASE_62 = "text of digits and letters"
    BYTES = "any bytes"


class Shape(NamedTuple):
    """What an answer shows of a credential beside the salt itself."""

    iterations: int
    salt_bytes: int
    salt_kind: SaltKind


DEFAULT_SHAPE: Final = Shape(DEFAULT_ITERATIONS, DEFAULT_SALT_BYTES, SaltKind.BYTES)
"""Of the users that Sordini itself makes. It is that of all answers while no user has a credential."""


def shape_of(credential: ScramCredential) -> Shape:
    """The shape of a real credential."""
    return Shape(credential.iterations, len(credential.salt), _kind_of(credential.salt))


def made_up_credential(mechanism: str, username: str, secret: bytes, shapes: Counter[Shape]) -> ScramCredential:
    """The credential of a name that has none; no password fits. `shapes`: how many real credentials have each."""
    drawn = list(shapes.items()) or [(DEFAULT_SHAPE, 1)]
    if len(drawn) > SHAPES_MAX:
        drawn = heapq.nsmallest(SHAPES_MAX, drawn, key=lambda row: (-row[1], _text(row[0])))

    def score(row: tuple[Shape, int]) -> float:
        shape, weight = row
        drawn_number = int.from_bytes(_random_bytes(secret, f"shape\0{mechanism}\0{_text(shape)}\0{username}", 8))
        # The power 1/weight of a number between 0 and 1, as a logarithm.
        return math.log((drawn_number + 0.5) / 2**64) / weight

    shape = max(drawn, key=score)[0]
    salt = _salt(shape, secret, f"{mechanism}\0{_text(shape)}\0{username}")
    key = hmac.digest(secret, f"key\0{mechanism}\0{username}".encode(), HASHES[mechanism])
    return ScramCredential(salt, key, key, shape.iterations)


def _text(shape: Shape) -> str:
    return f"{shape.iterations} {shape.salt_bytes} {shape.salt_kind.name}"


def _kind_of(salt: bytes) -> SaltKind:
    text = salt.decode("latin-1")
    letters = set(text)
    if letters <= set(_HEX):
        return SaltKind.HEX
    if letters <= set(_BASE_36):
        is_number = text[0] != "0" and len(text) <= 26 and int(text, 36) < _JAVA_END
        return SaltKind.JAVA if is_number else SaltKind.BASE_36
    return SaltKind.BASE_62 if letters <= set(_BASE_62) else SaltKind.BYTES


def _salt(shape: Shape, secret: bytes, purpose: str) -> bytes:
    size = shape.salt_bytes
    digits, begin, end = _range(shape)
    # A digit needs a byte at most.
    number = int.from_bytes(_random_bytes(secret, f"salt\0{purpose}", size + _SPARE_BYTES)) % (end - begin) + begin
    if digits is None:
        return number.to_bytes(size)
    text = []
    for _ in range(size):
        number, digit = divmod(number, len(digits))
        text.append(digits[digit])
    return "".join(reversed(text)).encode()


def _range(shape: Shape) -> tuple[str | None, int, int]:
    """A salt is a number: its digits (None: bytes), and the range that it is drawn from."""
    size = shape.salt_bytes
    match shape.salt_kind:
        case SaltKind.HEX:
            return _HEX, 0, 16**size
        case SaltKind.JAVA:
            return _BASE_36, 36 ** (size - 1), min(36**size, _JAVA_END)
        case SaltKind.BASE_36:
            return _BASE_36, 0, 36**size
        case SaltKind.BASE_62:
            return _BASE_62, 0, 62**size
        case SaltKind.BYTES:
            return None, 0, 256**size
        case unknown:
            assert_never(unknown)


def _random_bytes(secret: bytes, purpose: str, count: int) -> bytes:
    """Bytes that follow from the secret and the purpose, and tell nothing of either."""
    seed = hmac.digest(secret, purpose.encode(), "sha256")
    blocks = [hmac.digest(seed, number.to_bytes(4), "sha256") for number in range(-(-count // 32))]
    return b"".join(blocks)[:count]
