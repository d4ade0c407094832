"""Options and flags of sockets by system."""

from __future__ import annotations

import os
import socket

import pytest

from tests.unit.system.conftest import Load


def test_without_the_calls_of_linux_nothing_is_sent_by_reference(load: Load) -> None:
    sockets = load("sockets")
    assert sockets.SENDS_FILES == sockets.USES_LINUX_CALLS
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert sockets.unacknowledged_bytes(ours.fileno()) == 0


def test_options_of_zero_are_left_out(load: Load) -> None:
    assert list(load("sockets").liveness_options(0, 0, 0, 0)) == []


def test_the_user_timeout_is_linux_only_and_keepalive_is_everywhere(load: Load) -> None:
    sockets = load("sockets")
    options = dict(sockets.liveness_options(10, 5, 3, 30_000))
    assert options[socket.TCP_KEEPIDLE] == 10
    assert options[socket.TCP_KEEPINTVL] == 5
    assert options[socket.TCP_KEEPCNT] == 3
    assert options.get(socket.TCP_USER_TIMEOUT) == (30_000 if sockets.USES_LINUX_CALLS else None)


def test_macos_has_the_idle_time_by_another_name(load_portable: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_KEEPIDLE")
    monkeypatch.setattr(socket, "TCP_KEEPALIVE", 16, raising=False)
    for name in ("MSG_MORE", "MSG_NOSIGNAL", "TCP_USER_TIMEOUT"):
        monkeypatch.delattr(socket, name)
    monkeypatch.delattr(os, "sendfile")
    sockets = load_portable("sockets")
    assert dict(sockets.liveness_options(10, 0, 0, 30_000)) == {16: 10}
    assert (sockets.MORE, sockets.NO_SIGNAL) == (0, 0)
