"""What follows from the options of `sordini console`."""

from __future__ import annotations

import pytest

from sordini.admin.schema_registry.access import RegistryAccess, registry_address
from sordini.console.settings import (
    CHECKPOINTS_MAX,
    ConsoleSettings,
    WrongSetting,
    check,
    is_host_allowed,
    is_this_machine,
)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("localhost.example.org", False),
    ],
)
def test_only_loopback_is_this_machine(host: str, expected: bool) -> None:
    assert is_this_machine(host) is expected
    settings = ConsoleSettings(host=host)
    assert settings.read_only is not expected
    assert settings._replace(is_read_only=expected).read_only is expected, "an option decides before the address"


def test_what_is_reached_from_elsewhere_needs_tls_or_says_that_something_else_has_it() -> None:
    open_to_all = ConsoleSettings(host="0.0.0.0")
    with pytest.raises(WrongSetting, match="plain text"):
        check(open_to_all)
    check(open_to_all._replace(certificate="c.pem", key="k.pem"))
    check(open_to_all._replace(allows_plain_http=True))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("127.0.0.1:9080", True),
        ("[::1]:9080", True),
        ("[::1]", True),
        ("192.168.1.7", True),
        ("LOCALHOST:1", True),
        ("console.example:443", True),
        ("evil.example", False),
        ("evil.example:9080", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        (":9080", False),
        ("[evil]:1", False),
    ],
)
def test_a_host_header_names_an_address_localhost_or_a_given_name(header: str, expected: bool) -> None:
    assert is_host_allowed(header, ConsoleSettings(names=("console.example",))) is expected


def test_passwords_of_visitors_are_sent_to_a_registry_by_https_or_on_this_machine() -> None:
    there = RegistryAccess(registry_address("https://registry.example:8081"))
    as_visitors = ConsoleSettings(sasl_mechanism="SCRAM-SHA-256", registry=there, registry_as_visitors=True)
    check(as_visitors)
    check(as_visitors._replace(registry=RegistryAccess(registry_address("http://127.0.0.1:8081"))))
    for wrong, reason in (
        (as_visitors._replace(registry=RegistryAccess(registry_address("http://registry.example"))), "plain text"),
        (as_visitors._replace(registry=there._replace(authorization="Basic x")), "one of them"),
        (as_visitors._replace(registry=None), "needs --registry and --sasl-login"),
        (as_visitors._replace(sasl_mechanism=None), "needs --registry and --sasl-login"),
    ):
        with pytest.raises(WrongSetting, match=reason):
            check(wrong)


def test_checkpoints_have_a_bound() -> None:
    check(ConsoleSettings(checkpoints=("place",) * CHECKPOINTS_MAX))
    with pytest.raises(WrongSetting, match="51 of --checkpoint: allowed are 50"):
        check(ConsoleSettings(checkpoints=("place",) * (CHECKPOINTS_MAX + 1)))
