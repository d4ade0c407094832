"""The claims of a token: its times, its issuer, its audience, its scope, and who it names."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.security.sasl.oauthbearer.claims import AcceptedToken, TokenRefused, TokenRules, check_claims
from tests.support.token_issuer import AUDIENCE, ISSUER, claims

NOW_S = 1_700_000_000
SKEW_S = 30
RULES = TokenRules(ISSUER, frozenset({AUDIENCE, "other"}), SKEW_S)


def accept(now_s: float = NOW_S, rules: TokenRules = RULES, **changes: Any) -> AcceptedToken:
    return check_claims(claims(NOW_S, **changes), rules, int(now_s * 1000))


def reason(now_s: float = NOW_S, rules: TokenRules = RULES, **changes: Any) -> str:
    with pytest.raises(TokenRefused) as refused:
        accept(now_s, rules, **changes)
    return str(refused.value)


@given(st.integers(-1000, 1000), st.integers(0, 300))
def test_a_token_is_accepted_from_its_begin_until_its_end_and_for_the_skew_around_them(
    offset_s: int, skew_s: int
) -> None:
    rules = RULES._replace(clock_skew_s=skew_s)
    for end_s, is_accepted in ((NOW_S + offset_s, offset_s > -skew_s),):
        if is_accepted:
            assert accept(rules=rules, exp=end_s, iat=NOW_S - 2000).expires_ms == end_s * 1000
        else:
            assert "expired" in reason(rules=rules, exp=end_s, iat=NOW_S - 2000)
    for name in ("nbf", "iat"):
        if offset_s <= skew_s:
            assert accept(rules=rules, exp=NOW_S + 5000, **{name: NOW_S + offset_s}).principal == "alice"
        else:
            assert reason(rules=rules, exp=NOW_S + 5000, **{name: NOW_S + offset_s}).startswith("it is valid in ")


@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
@pytest.mark.parametrize("value", [True, "1700000600", [], {}, math.nan, math.inf, -math.inf, -1, 2**63])
def test_a_time_is_a_number_within_its_range(name: str, value: Any) -> None:
    assert reason(**{name: value}) in (f"it has no time {name}", f"its time {name} is out of range")


@pytest.mark.parametrize("name", ["exp", "iat"])
def test_the_end_and_the_time_of_issue_are_required(name: str) -> None:
    assert reason(**{name: None}) == f"it has no time {name}"


def test_a_null_is_not_taken_for_a_claim_that_is_not_there() -> None:
    for name in ("nbf", "exp", "sub", "scope"):
        with pytest.raises(TokenRefused):
            check_claims({**claims(NOW_S), name: None}, RULES, NOW_S * 1000)


def test_a_token_that_is_issued_in_the_future_is_not_valid_whatever_its_begin() -> None:
    assert reason(iat=NOW_S + 31, nbf=NOW_S - 1) == "it is valid in 31 s only"
    assert reason(nbf=NOW_S + 31, iat=NOW_S - 1) == "it is valid in 31 s only"


def test_fractions_of_a_second_count() -> None:
    assert accept(exp=NOW_S + 0.5).expires_ms == NOW_S * 1000 + 500


@pytest.mark.parametrize("issuer", [None, "", f"{ISSUER}/", ISSUER.upper(), [ISSUER], 1])
def test_the_issuer_is_the_expected_one_exactly(issuer: Any) -> None:
    assert reason(iss=issuer) == "its issuer (iss) is not the expected one"
    assert accept(rules=RULES._replace(issuer=None), iss=issuer).principal == "alice"


@pytest.mark.parametrize("audience", [AUDIENCE, [AUDIENCE], ["x", "other"]])
def test_one_audience_of_a_token_is_an_expected_one(audience: Any) -> None:
    assert accept(aud=audience).principal == "alice"


@pytest.mark.parametrize("audience", [None, "", "kafk", "kafka2", "x", [], ["x"], 1, [1], {"kafka": 1}, [[AUDIENCE]]])
def test_a_token_for_another_audience_is_refused(audience: Any) -> None:
    assert "audience (aud)" in reason(aud=audience)


def test_without_an_expected_audience_a_token_names_none() -> None:
    """RFC 7519, 4.1.3: who is not named refuses it. Apache Kafka's library does, too."""
    rules = RULES._replace(audiences=frozenset())
    assert accept(rules=rules, aud=None).principal == "alice"
    assert reason(rules=rules) == "no audience (aud) is expected"
    assert "audience" in reason(rules=rules, aud=1)


@pytest.mark.parametrize("subject", [None, "", " ", "alice ", "\talice", 1, True, ["alice"], {"name": "x"}, "\ud800"])
def test_the_principal_is_text_and_not_empty(subject: Any) -> None:
    assert reason(sub=subject).startswith("its claim sub, the principal, is ")


@pytest.mark.parametrize(
    "character", [*map(chr, range(0x20)), "\x7f", "\x85", "\x9b", *"\u2028\u2029\u202e\u2066\u200f"]
)
def test_a_principal_with_a_control_character_is_refused_and_not_shown(character: str) -> None:
    """It would be another line of a log, or look like another principal."""
    assert reason(sub=f"ali{character}ce") == "its claim sub, the principal, has control characters"


@pytest.mark.parametrize(
    "name", ["a b", "O=Ä,CN=x", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "🙂", "a\u00a0b", "a|b"]
)
def test_a_principal_may_have_every_other_character(name: str) -> None:
    assert accept(sub=name).principal == name


def test_the_principal_has_a_bounded_size_and_may_be_another_claim() -> None:
    assert accept(sub="é" * 512).principal == "é" * 512
    assert "more than 1024 bytes" in reason(sub="é" * 513)
    rules = RULES._replace(subject_claim="client_id")
    assert accept(rules=rules, client_id="service-7").principal == "service-7"
    assert "its claim client_id" in reason(rules=rules)


@pytest.mark.parametrize("scope", ["read", "read write", ["read", "write"], [], None])
def test_a_scope_may_be_there_and_means_nothing(scope: Any) -> None:
    assert accept(scope=scope) == accept()


@pytest.mark.parametrize("scope", [1, True, {}, [1], [""], "", " ", ["a", "a"], ["a", " a"]])
def test_a_scope_of_another_form_is_refused(scope: Any) -> None:
    assert reason(scope=scope).startswith("its claim scope ")
    assert accept(rules=RULES._replace(scope_claim="scp"), scope=scope) == accept()
    assert reason(rules=RULES._replace(scope_claim="scp"), scp=scope).startswith("its claim scp ")
