"""The private methods of kazoo that `kazoo_handler.py` overrides are there, and are called as it expects.

kazoo promises nothing about them, which is why pyproject.toml bounds its version: a new one is tried with this test first.
"""

from __future__ import annotations

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from packaging.requirements import Requirement

from sordini.coordination_store.kazoo_handler import LoopHandler, TimedClient, TimedConnection

ROOT = Path(__file__).resolve().parents[3]
PRIVATE = {
    "_expand_client_hosts": "(self)",
    "_connect": "(self, host, hostip, port)",
    "_invoke": "(self, timeout, request, xid=None)",
    "_submit": "(self, request, timeout, xid=None)",
    "_read_header": "(self, timeout)",
}
"""Each with the signature that kazoo gives it."""
HANDLER = {
    "start": "(self)",
    "stop": "(self)",
    "async_result": "(self)",
    "dispatch_callback": "(self, callback)",
    "create_socket_pair": "(self)",
    "create_connection": "(self, *args, **kwargs)",
    "select": "(self, *args, **kwargs)",
}
"""The same for the handler, whose methods are public."""


def own_methods(mine: type, theirs: type) -> set[str]:
    """The methods of ours that are theirs as well."""
    return {name for name, one in vars(mine).items() if inspect.isfunction(one) and hasattr(theirs, name)}


def test_the_overridden_private_methods_are_the_ones_that_are_named_here() -> None:
    assert own_methods(TimedConnection, ConnectionHandler) - {"__init__"} == PRIVATE.keys()
    assert own_methods(TimedClient, KazooClient) == {"__init__"}
    assert {name for name in own_methods(LoopHandler, SequentialThreadingHandler) if name.startswith("_")} == {
        "__init__"
    }


@pytest.mark.parametrize(("name", "signature"), PRIVATE.items())
def test_kazoo_has_each_of_them_with_the_expected_signature(name: str, signature: str) -> None:
    assert str(inspect.signature(vars(ConnectionHandler)[name])) == signature


@pytest.mark.parametrize(("name", "signature"), HANDLER.items())
def test_kazoos_handler_has_the_methods_that_are_replaced(name: str, signature: str) -> None:
    assert str(inspect.signature(vars(SequentialThreadingHandler)[name])) == signature


@pytest.mark.parametrize("name", PRIVATE)
def test_ours_takes_what_kazoos_takes_in_the_same_order(name: str) -> None:
    theirs, ours = (inspect.signature(vars(one)[name]).parameters for one in (ConnectionHandler, TimedConnection))
    assert [(one.name, one.default, one.kind) for one in ours.values()] == [
        (one.name, one.default, one.kind) for one in theirs.values()
    ]


@pytest.mark.parametrize(
    ("name", "caller"),
    [
        ("_expand_client_hosts", "_connect_loop"),
        ("_connect", "_connect_attempt"),
        ("_invoke", "_connect"),
        ("_submit", "_send_request"),
        ("_read_header", "_invoke"),
    ],
)
def test_kazoo_still_calls_them(name: str, caller: str) -> None:
    assert name in vars(ConnectionHandler)[caller].__code__.co_names


def test_the_connection_keeps_what_the_client_replaces_and_the_connection_reads() -> None:
    assert {"_connection", "retry_sleeper"} <= set(KazooClient.__init__.__code__.co_names) | set(
        ConnectionHandler.__init__.__code__.co_names
    )


def test_the_installed_version_is_within_the_bound_of_pyproject_toml() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (required,) = (one for one in map(Requirement, project["dependencies"]) if one.name == "kazoo")
    assert any(one.operator == "<" for one in required.specifier), "no upper bound"
    assert version("kazoo") in required.specifier
