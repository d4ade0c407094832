"""Rules that make principals of distinguished names, and the names themselves; in Java's form, in linear time."""

from __future__ import annotations

import re

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.linear_pattern import LinearPattern, PatternError
from sordini.broker.configuration.principal_mapping import NAME_CHARACTERS_MAX, MappingError, PrincipalMapping
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.security.tls.distinguished_name import distinguished_name

NAME = "CN=kafka-server1,OU=KafkaBroker,O=Example,C=DE"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", NAME, NAME),
        ("", NAME, NAME),
        ("RULE:^CN=(.*?),OU=.*$/$1/", NAME, "kafka-server1"),
        ("RULE:^CN=(.*?),OU=.*$/$1/U", NAME, "KAFKA-SERVER1"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L, DEFAULT", NAME, "kafka-server1@kafkabroker"),
        ("RULE:^CN=alice.*$/alice/,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.-]*).*$/$1/", NAME, "kafka-server1"),
        ("RULE:^OU=.*$/x/,DEFAULT", NAME, NAME),
        ("RULE:^CN=(\\w+)\\,.*$/$1/", "CN=bob,O=x", "bob"),
        ("RULE:.*/x/", "CN=bob", "xx"),  # As Java's replaceAll: the empty match at the end, too.
        ("RULE:CN=([^,]{2,4}),.*/\\$$1$2/", "CN=bob,O=x", "$bob$2"),
        ("RULE:^CN=(?:a|b)(c)?.*$/<$1>/", "CN=b,O=x", "<>"),
        ("RULE:^CN=([^\\/]*)\\/.*$/$1/", "CN=a/b", "a"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_makes_the_principal(rules: str, name: str, principal: str) -> None:
    assert PrincipalMapping(rules).apply(name) == principal


def test_a_name_that_no_rule_matches_and_one_that_is_too_long_are_refused() -> None:
    mapping = PrincipalMapping("RULE:^CN=a$/x/")
    for name in ("CN=b", "CN=aa", "CN=" + "a" * NAME_CHARACTERS_MAX):
        with pytest.raises(MappingError):
            mapping.apply(name)


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "RULE:a",
        "RULE:a/b",
        "RULE:(a/b/",
        "RULE:a/b/X",
        "RULE:a/$/",
        "RULE:(?=a)/b/",
        "DEFAULT,x",
        "RULE:a{3,1}/b/",
    ],
)
def test_rules_that_are_not_understood_refuse_the_start(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules="):
        build_config({"ssl.principal.mapping.rules": rules})


CHARACTERS = st.sampled_from("ab=,")
PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "=", ",", "^", "$", "\\w"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"({one})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?"])).map(
            # Of a part that is not empty: engines differ in what an empty repetition ends.
            lambda two: two[0] if re.fullmatch(two[0], "") else f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@given(pattern=PATTERNS, text=st.text(CHARACTERS, max_size=8))
def test_a_match_is_where_a_backtracking_engine_finds_it(pattern: str, text: str) -> None:
    expected = re.compile(pattern.replace("$", r"\Z"))
    found = LinearPattern(pattern).find(text)
    reference = expected.search(text)
    assert (found is None) == (reference is None)
    if found is not None and reference is not None:
        assert found[:2] == reference.span()
    whole = LinearPattern(pattern).find(text, is_whole=True)
    assert (whole is None) == (expected.fullmatch(text) is None)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(.*)(.*)(.*)(.*)(.*)b", "(?:a?){40}a{40}b"])
def test_a_pattern_that_makes_engines_backtrack_is_answered_in_bounded_steps(pattern: str) -> None:
    compiled = LinearPattern(pattern)
    reads = 0

    class Counted(list):  # type: ignore[type-arg]
        def __getitem__(self, number):  # type: ignore[no-untyped-def]
            nonlocal reads
            reads += 1
            return super().__getitem__(number)

    compiled._states = Counted(compiled._states)
    assert compiled.find("a" * 200, is_whole=True) is None
    assert reads <= 201 * 2 * compiled.size


@pytest.mark.parametrize("pattern", ["a" * 2000, "(" * 60 + ")" * 60, "(?:a{9}){9}" * 60])
def test_a_pattern_has_bounds(pattern: str) -> None:
    with pytest.raises(PatternError):
        LinearPattern(pattern)


def test_a_distinguished_name_is_written_as_java_writes_it() -> None:
    attribute = x509.NameAttribute
    name = x509.Name(
        [
            attribute(NameOID.COUNTRY_NAME, "DE"),
            attribute(NameOID.ORGANIZATION_NAME, "Example, Inc"),
            attribute(NameOID.EMAIL_ADDRESS, "a@b"),
            attribute(NameOID.COMMON_NAME, " # alice+bob "),
        ]
    )
    assert distinguished_name(name) == (
        "CN=\\ \\# alice\\+bob\\ ,1.2.840.113549.1.9.1=#1603614062,O=Example\\, Inc,C=DE"
    )
    two = x509.RelativeDistinguishedName([attribute(NameOID.COMMON_NAME, "a"), attribute(NameOID.USER_ID, "7")])
    assert distinguished_name(x509.Name([two])) in ("CN=a+UID=7", "UID=7+CN=a")
    assert distinguished_name(x509.Name([])) == ""
    assert _ASN1Type.IA5String.value == 0x16
