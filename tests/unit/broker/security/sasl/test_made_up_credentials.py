"""What a stranger learns of who exists, from the salts and iterations of many logins: nothing."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.security.user_requests import SALT_BYTES
from sordini.broker.security.sasl.made_up_credentials import (
    DEFAULT_SHAPE,
    SHAPES_MAX,
    SaltKind,
    Shape,
    made_up_credential,
    shape_of,
)
from sordini.broker.security.sasl.scram_credential import HASHES, ScramCredential
from sordini.broker.security.sasl.users import ScramUsers, user_entity
from tests.support.fake_ports import ListLog

MECHANISM = "SCRAM-SHA-256"
SECRET = b"s" * 32
NAMES = [f"name-{number}" for number in range(2_000)]
_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"

Salt = Callable[[random.Random], bytes]


def base_36(number: int) -> bytes:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _BASE_36[digit] + text
    return text.encode()


def of_ours(chance: random.Random) -> bytes:
    return chance.randbytes(24)


def of_java(chance: random.Random) -> bytes:
    """As `new BigInteger(130, random).toString(36)`."""
    return base_36(chance.getrandbits(130))


def of_librdkafka(chance: random.Random) -> bytes:
    return chance.randbytes(64)


def of_hex(chance: random.Random) -> bytes:
    return chance.randbytes(16).hex().encode()


def real(salt: bytes, iterations: int) -> ScramCredential:
    return ScramCredential(salt, b"k" * 32, b"k" * 32, iterations)


def users_of(*kinds: tuple[int, Salt, int], secret: bytes = SECRET) -> ScramUsers:
    """A cluster with so many users of each kind: number, salt, iterations."""
    users, chance = ScramUsers(ListLog(), secret), random.Random(1)
    for kind, (count, salt, iterations) in enumerate(kinds):
        for number in range(count):
            credential = real(salt(chance), iterations)
            users.changed(user_entity(f"user-{kind}-{number}"), {MECHANISM: credential.text})
    return users


def answered(users: ScramUsers, names: list[str]) -> Counter[Shape]:
    return Counter(shape_of(users.answered_with(MECHANISM, name)[0]) for name in names)


MIXED = (
    (40, of_ours, 8_192),
    (30, of_java, 4_096),
    (20, of_java, 16_384),
    (10, of_hex, 8_192),
    (5, of_librdkafka, 4_096),
)


@pytest.mark.parametrize(
    "kinds", [(), MIXED[:1], MIXED[1:2], MIXED[:2], MIXED], ids=["none", "ours", "kafka's", "both", "many"]
)
def test_made_up_answers_are_distributed_as_the_real_ones(kinds: tuple[tuple[int, Salt, int], ...]) -> None:
    users = users_of(*kinds)
    reals = answered(users, list(users.all())) or Counter([DEFAULT_SHAPE])
    made_up = answered(users, NAMES)
    assert made_up.keys() == reals.keys()
    # Pearson's test; its value is below twice the degrees of freedom, and 12 more, but once in 50,000 secrets.
    expected = {shape: len(NAMES) * count / reals.total() for shape, count in reals.items()}
    deviation = sum((made_up[shape] - count) ** 2 / count for shape, count in expected.items())
    assert deviation < 2 * (len(reals) - 1) + 12 + 1e-9


def test_a_made_up_salt_has_the_bytes_of_a_real_one() -> None:
    """Each byte value at each position as often: a salt of Apache Kafka's tools that has 26 letters begins with 1."""
    users, chance = users_of(*MIXED), random.Random(2)
    makers = {SaltKind.BYTES: of_ours, SaltKind.JAVA: of_java, SaltKind.HEX: of_hex}
    salts = [users.answered_with(MECHANISM, name)[0].salt for name in NAMES]
    for kind, maker in makers.items():
        for size in {
            shape.salt_bytes for shape in answered(users, NAMES) if shape.salt_kind is kind and shape.salt_bytes < 64
        }:
            made_up = [salt for salt in salts if len(salt) == size and shape_of(real(salt, 1)).salt_kind is kind]
            drawn = [salt for salt in (maker(chance) for _ in range(6_000)) if len(salt) == size]
            for position in range(size):
                ours, theirs = (Counter(salt[position] >> 4 for salt in one) for one in (made_up, drawn))
                assert ours.keys() <= theirs.keys(), (kind, size, position)
                for value, count in theirs.items():
                    share = count / len(drawn)
                    spread = (share * (1 - share) / len(made_up)) ** 0.5
                    assert abs(ours[value] / len(made_up) - share) <= 6 * spread, (kind, size, position, value)
    assert len(set(salts)) == len(NAMES)


def test_an_answer_is_the_same_after_a_restart_and_on_each_broker_in_whatever_order_users_were_read() -> None:
    one, other = users_of(*MIXED), users_of()
    for user, credentials in sorted(one.all().items(), key=lambda row: hashlib.md5(row[0].encode()).digest()):
        other.changed(user_entity(user), {mechanism: known.text for mechanism, known in credentials.items()})
    for name in (*NAMES[:500], *one.all()):
        assert one.answered_with(MECHANISM, name) == other.answered_with(MECHANISM, name)


def test_another_secret_another_mechanism_and_another_name_have_another_salt() -> None:
    salts = {
        made_up_credential(mechanism, name, secret, Counter()).salt
        for mechanism in HASHES
        for name in ("nobody", "somebody", "nobody\0", "")
        for secret in (SECRET, b"t" * 32)
    }
    assert len(salts) == 16


def test_a_user_that_is_made_or_deleted_changes_the_fewest_answers_and_those_in_whole() -> None:
    users = users_of((60, of_ours, 8_192), (39, of_java, 4_096))
    before = {name: users.answered_with(MECHANISM, name)[0] for name in NAMES}
    users.changed(user_entity("new"), {MECHANISM: real(b"x" * 40, 10_000).text})
    after = {name: users.answered_with(MECHANISM, name)[0] for name in NAMES}
    changed = [name for name in NAMES if before[name] != after[name]]
    assert 0 < len(changed) < 3 * len(NAMES) / 100
    for name in changed:
        assert shape_of(after[name]) == Shape(10_000, 40, SaltKind.BASE_36), "none changes between two others"
        assert before[name].salt[:20] != after[name].salt[:20]
    users.changed(user_entity("new"), {})
    assert before == {name: users.answered_with(MECHANISM, name)[0] for name in NAMES}, "nothing of it is left"


def test_a_name_that_gets_a_shape_again_gets_the_salt_of_its_shape_and_no_two_shapes_share_one() -> None:
    bytes_24 = Counter({Shape(8_192, 24, SaltKind.BYTES): 1})
    more_iterations = Counter({Shape(4_096, 24, SaltKind.BYTES): 1})
    first, second = (made_up_credential(MECHANISM, "x", SECRET, each) for each in (bytes_24, more_iterations))
    assert first.salt != second.salt, "as if the password had been changed"


def test_a_mechanism_is_answered_as_its_own_credentials_are() -> None:
    users = users_of((3, of_java, 4_096))
    assert {shape.iterations for shape in answered(users, NAMES[:100])} == {4_096}
    other, is_known = users.answered_with("SCRAM-SHA-512", "user-0-0")
    assert (shape_of(other), is_known) == (DEFAULT_SHAPE, False), "the user has none of that mechanism"
    assert len(other.stored_key) == 64


def test_the_default_is_what_our_own_commands_make() -> None:
    assert Shape(8_192, SALT_BYTES, SaltKind.BYTES) == DEFAULT_SHAPE


def test_of_too_many_shapes_the_most_frequent_are_drawn_from_on_each_broker_alike() -> None:
    rows = [(Shape(4_096 + number, 24, SaltKind.BYTES), 1) for number in range(2 * SHAPES_MAX)]
    rows[5] = (rows[5][0], 100)
    forwards, backwards = Counter(dict(rows)), Counter(dict(reversed(rows)))
    found = [made_up_credential(MECHANISM, name, SECRET, forwards) for name in NAMES[:1_500]]
    assert found[:50] == [made_up_credential(MECHANISM, name, SECRET, backwards) for name in NAMES[:50]]
    counts = Counter(credential.iterations for credential in found)
    assert len(counts) == SHAPES_MAX
    assert counts.most_common(1)[0][0] == 4_101


@given(st.binary(min_size=1, max_size=200), st.integers(1, 100_000), st.text(max_size=20))
def test_a_made_up_credential_has_the_very_shape_it_was_drawn_from(salt: bytes, iterations: int, name: str) -> None:
    shape = shape_of(real(salt, iterations))
    made_up = made_up_credential(MECHANISM, name, SECRET, Counter({shape: 1}))
    assert (made_up.iterations, len(made_up.salt)) == (iterations, len(salt))
    fitting = list(SaltKind)
    assert fitting.index(shape_of(made_up).salt_kind) <= fitting.index(shape.salt_kind), "short ones may fit more kinds"
