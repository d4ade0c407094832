"""Brokers that packs come from, and those that they are loaded into."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sordini.cli.__main__ import main
from sordini.testing import Kafka, make_kafka

Command = Callable[..., Any]


@pytest.fixture(scope="package")
def brokers() -> Iterator[Kafka]:
    with make_kafka() as made:
        yield made


def run(kafka: Kafka, *words: str) -> Result:
    """Run a command below `sordini topics`."""
    environment = {"SORDINI_BOOTSTRAP": kafka.bootstrap_servers}
    return CliRunner().invoke(main, ["topics", *words], env=environment, prog_name="sordini")


def pack(kafka: Kafka, path: object, *words: str) -> Any:
    """What `sordini topics pack --json` says."""
    done = run(kafka, "pack", *words, "--output", str(path), "--json")
    assert done.exit_code == 0, (words, done.stdout, done.stderr, done.exception)
    return json.loads(done.stdout)


def refused(kafka: Kafka, *words: str, code: int = 1) -> str:
    """The one line that a command says when it fails."""
    done = run(kafka, *words)
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, done.stdout) == (code, ""), done.stderr
    return done.stderr
