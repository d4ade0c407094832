"""Containers for real: they run with SORDINI_DOCKER=all alone, as `make docker` sets it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker import images
from tests.docker.engine import ROOT, Engine, only_one, running, why_not
from tests.outside.needs import need

EVERYTHING = os.environ.get("SORDINI_DOCKER") == "all"

collect_ignore_glob = [] if EVERYTHING else ["test_*.py"]


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's clone: what is committed or about to be."""
    folder = tmp_path_factory.mktemp("clone")
    images.copy_of_repository(folder, ROOT)
    return folder


@pytest.fixture(scope="session")
def session_engine(source: Path) -> Iterator[Engine]:
    reason = why_not()
    need(not reason, f"Docker ({reason})", "`python3 scripts/outside.py docker` as root installs it")
    with only_one():
        with running(source, isolated=False) as builder:
            images.build(builder)
            images.build_pipeline(builder)
        with running(source, isolated=True) as engine:
            yield engine


@pytest.fixture
def engine(session_engine: Engine) -> Iterator[Engine]:
    """The daemon with its images, without any container or volume before the test and after it."""
    yield session_engine
    session_engine.clear()
