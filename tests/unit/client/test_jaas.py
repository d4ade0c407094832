"""JAAS lines: what is read of them, and that no module is loaded."""

from __future__ import annotations

import pytest

from sordini.client.jaas import read_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "users"),
    [
        ('user_a="x" user_b="y"', {"a": "x", "b": "y"}),
        ("user_a='x;y'", {"a": "x;y"}),
        ("user_a=plain", {"a": "plain"}),
        (r'user_a="say \"hi\" \\"', {"a": 'say "hi" \\'}),
        ('\n  user_a.b@c-d = "x"\n', {"a.b@c-d": "x"}),
        ("", {}),
    ],
)
def test_options_of_a_jaas_line_are_read(options: str, users: dict[str, str]) -> None:
    assert read_jaas("key", f"{PLAIN} required {options};", "PLAIN").users == users


@pytest.mark.parametrize("line", ["", PLAIN, f"{PLAIN} required", f'{PLAIN} required a="b', f"{PLAIN} required a b;"])
def test_a_line_that_is_no_jaas_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"^key="):
        read_jaas("key", line, "PLAIN")


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
        "PlainLoginModule",
        "os.system",
    ],
)
def test_a_login_module_is_one_of_a_few_names_and_never_loaded(module: str) -> None:
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819: a class that a line names is compared, and no more."""
    with pytest.raises(ValueError, match=r"allowed is org\.apache\.kafka\.common\.security\.plain\.PlainLoginModule"):
        read_jaas("key", f'{module} required user.provider.url="ldap://192.0.2.1/x";', "PLAIN")


def test_what_looks_like_a_reference_to_a_file_or_variable_is_the_password_itself() -> None:
    """CVE-2024-31141: nothing is read for it."""
    for text in ("${file:/etc/passwd:root}", "${env:HOME}", "${dir:/etc:passwd}"):
        assert read_jaas("key", f'{PLAIN} required user_a="{text}";', "PLAIN").users == {"a": text}
