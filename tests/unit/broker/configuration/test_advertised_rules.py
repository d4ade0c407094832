"""`sordini.advertised.listeners.rules`: what is allowed, and which connection gets which name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.configuration.address_rules import ConnectionFacts, endpoint_name
from sordini.broker.configuration.advertised_rules import KEY, RULES_MAX
from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.wiring.listeners import registered_broker
from sordini.protocol.types import BrokerId

ONE = {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://broker:9092"}
TLS = {"listeners": "SSL://:9093", "security.inter.broker.protocol": "SSL", "ssl.keystore.location": "k.p12"}
TWO = {
    "listeners": "CLIENTS://:9092,BROKERS://:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def a_config(rules: str, base: dict[str, str] | None = None) -> Config:
    return build_config((base or ONE) | {KEY: rules})[0]


def name_of(
    config: Config, source: str, connected: tuple[str, int] = ("172.18.0.2", 9092), server_name: str | None = None
) -> str | None:
    rules = [one.rule for one in config.advertised_rules]
    return endpoint_name(rules, ConnectionFacts(source, connected, server_name))


def test_without_rules_a_plain_value_means_what_it_meant() -> None:
    config, unknown = build_config(ONE)
    assert (config.advertised_rules, unknown) == ((), [])
    assert [str(end) for end in config.advertised(config.endpoints)] == ["PLAINTEXT://broker:9092"]


def test_the_first_rule_that_holds_decides_and_else_none_does() -> None:
    config = a_config("HOST://localhost:19092 from=172.18.0.1; NEAR://broker.near:9092 from=172.18.0.0/16,fd00::/8")
    found = [name_of(config, source) for source in ("172.18.0.1", "172.18.0.9", "fd00::5", "10.0.0.1", "fe80::1%eth0")]
    assert found == ["HOST", "NEAR", "NEAR", None, None]


def test_an_ipv4_client_of_an_ipv6_socket_is_an_ipv4_client() -> None:
    assert name_of(a_config("HOST://localhost:19092 from=127.0.0.0/8"), "::ffff:127.0.0.1") == "HOST"


def test_the_address_that_was_connected_to_decides_with_its_port_or_without() -> None:
    config = a_config("A://a:1 to=127.0.0.2:9092; B://b:2 to=[::1]:9092; C://c:3 to=127.0.0.3,::1")
    places = [("127.0.0.2", 9092), ("127.0.0.2", 9), ("::1", 9092), ("::1", 9), ("127.0.0.3", 7), ("127.0.0.4", 9092)]
    assert [name_of(config, "10.0.0.1", place) for place in places] == ["A", None, "B", "C", "C", None]


def test_the_server_name_decides_without_its_case_and_a_star_is_one_label() -> None:
    config = a_config("ONE://one:1 sni=Kafka.example.com; ANY://any:2 sni=*.example.org", TLS)
    names = ["kafka.EXAMPLE.com", "kafka.example.com.", "a.example.org", "a.b.example.org", "example.org", "", None]
    found = [name_of(config, "10.0.0.1", server_name=name) for name in names]
    assert found == ["ONE", "ONE", "ANY", None, None, None, None]


def test_all_conditions_of_a_rule_must_hold() -> None:
    config = a_config("T://t:1 from=10.0.0.0/8 to=127.0.0.2 sni=x", TLS)
    holding = ("10.1.1.1", ("127.0.0.2", 9093), "x")
    others = [("11.1.1.1", *holding[1:]), (holding[0], ("127.0.0.3", 9093), "x"), (*holding[:2], "y")]
    assert name_of(config, *holding) == "T"
    assert [name_of(config, *facts) for facts in others] == [None, None, None]


def test_a_name_may_be_in_several_rules_with_one_address_and_is_registered_once() -> None:
    config = a_config("HOST://localhost:19092 from=172.18.0.1; HOST://localhost:19092 to=127.0.0.2")
    broker = registered_broker(config, BrokerId(1), config.advertised(config.endpoints))
    assert [(end.listener, end.host, end.port) for end in broker.endpoints] == [("PLAINTEXT", "broker", 9092)]
    assert [(end.listener, end.host, end.port) for end in broker.rule_endpoints] == [("HOST", "localhost", 19092)]


def test_a_rule_has_the_protocol_of_its_listener() -> None:
    config = a_config("T://t:1 from=10.0.0.0/8", TLS)
    assert config.advertised_rules[0].endpoint.protocol == "SSL"


def test_with_several_listeners_a_rule_names_its_own() -> None:
    assert a_config("T://t:1 on=clients from=10.0.0.0/8", TWO).advertised_rules[0].listener == "CLIENTS"


@pytest.mark.parametrize(
    ("rules", "base", "what", "why"),
    [
        ("T://t:1", ONE, "rule 1 'T://t:1'", "needs from=, to= or sni="),
        ("T://t:1 from=10.0.0.0/8; broken", ONE, "rule 2 'broken'", "NAME://host:port"),
        ("T://t from=10.0.0.0/8", ONE, "rule 1 'T://t'", "NAME://host:port"),
        ("T://t:1,SSL://t:2 from=10.0.0.0/8", ONE, "rule 1 'T://t:1,SSL://t:2'", "one NAME://host:port"),
        ("T://t:0 from=10.0.0.0/8", ONE, "rule 1 'T://t:0'", "1 to 65535"),
        ("T://:1 from=10.0.0.0/8", ONE, "rule 1 'T://:1'", "clients can connect to"),
        ("T://0.0.0.0:1 from=10.0.0.0/8", ONE, "rule 1", "clients can connect to"),
        ("T.T://t:1 from=10.0.0.0/8", ONE, "rule 1 'T.T://t:1'", "letters, digits"),
        ("plaintext://t:1 from=10.0.0.0/8", ONE, "rule 1", "PLAINTEXT is a listener"),
        ("T://t:1 from=10.0.0.1/8", ONE, "from=10.0.0.1/8", "allowed is 10.0.0.0/8, or the address alone"),
        ("T://t:1 from=office", ONE, "from=office", "allowed is an address or a network"),
        ("T://t:1 from=10.0.0.0/8,", ONE, "from=", "allowed is an address or a network"),
        ("T://t:1 to=localhost", ONE, "to=localhost", "allowed is an address of this machine"),
        ("T://t:1 to=127.0.0.1:70000", ONE, "to=127.0.0.1:70000", "allowed is an address of this machine"),
        ("T://t:1 sni=kafka", ONE, "sni=kafka", "PLAINTEXT is PLAINTEXT: allowed on SSL and SASL_SSL"),
        ("T://t:1 sni=*", TLS, "sni=*", "allowed is a host name"),
        ("T://t:1 source=10.0.0.0/8", ONE, "source=10.0.0.0/8", "allowed are on=LISTENER, from=NETWORK"),
        ("T://t:1 from=", ONE, "from=", "allowed are on=LISTENER"),
        ("T://t:1 from=::1 from=::2", ONE, "from=::2", "is there twice"),
        ("T://t:1 on=OTHER from=::1", ONE, "on=OTHER", "allowed is a name from listeners (PLAINTEXT)"),
        ("T://t:1 from=::1", TWO, "rule 1", "needs on=LISTENER, one of CLIENTS, BROKERS"),
        ("T://t:1 from=::1; T://t:2 from=::2", ONE, "rule 2 'T://t:2'", "T is T://t:1 on PLAINTEXT in an earlier rule"),
        (
            "T://t:1 from=::1 on=CLIENTS; T://t:1 from=::2 on=BROKERS",
            TWO,
            "rule 2",
            "T is T://t:1 on CLIENTS in an earlier rule",
        ),
        ("; ".join(f"T{n}://t:1 from=::1" for n in range(RULES_MAX + 1)), ONE, "65 rules", "allowed are 64"),
    ],
)
def test_a_wrong_rule_refuses_the_start_and_says_which_what_and_what_is_allowed(
    rules: str, base: dict[str, str], what: str, why: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        a_config(rules, base)
    assert str(refused.value).startswith(KEY)
    assert what in str(refused.value)
    assert why in str(refused.value)


@given(st.text(alphabet="AT:/ =;,.*[]10fromtosnix", max_size=60))
def test_any_text_is_rules_or_refused_with_the_keys_name(text: str) -> None:
    refused = None
    try:
        a_config(text)
    except ConfigError as error:
        refused = str(error)
    assert refused is None or refused.startswith(KEY)
