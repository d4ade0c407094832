"""The modules of `system`, loaded twice: as this machine's system has them, and with the portable ways forced."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import sordini.system
from sordini.system.linux import SWITCH

Load = Callable[[str], ModuleType]


def loaded(name: str) -> ModuleType:
    """A module of the room by its file: the decision of its import is made again."""
    assert sordini.system.__file__ is not None
    path = Path(sordini.system.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"sordini.system.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["", "1"], ids=["linux", "portable"])
def load(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Load:
    """`load("files")`, once in each of the two ways."""
    monkeypatch.setenv(SWITCH, request.param)
    decision = loaded("linux")
    assert (request.param == "") == decision.USES_LINUX_CALLS
    monkeypatch.setitem(sys.modules, "sordini.system.linux", decision)
    return loaded


@pytest.fixture
def load_portable(monkeypatch: pytest.MonkeyPatch) -> Load:
    """The same with the portable ways only."""
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setitem(sys.modules, "sordini.system.linux", loaded("linux"))
    return loaded
