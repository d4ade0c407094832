"""docs/cluster.md speaks of commands, targets, services, files and metrics that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.topic_config import TOPIC_SETTINGS
from sordini.cli.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(program: str) -> Iterator[list[str]]:
    """The words of each command of a program in the page's blocks, redirections left out."""
    for block in BLOCK.findall(PAGE):
        for command in re.split(r"\n|;|\buntil\b|&&", block):
            words = shlex.split(command.partition(">")[0])
            if words[:1] == [program]:
                yield words[1:]


def parse(words: list[str]) -> None:
    """As the command line does, without doing anything. Raises click.UsageError."""
    context = click.Context(main, info_name="sordini")
    command: click.Command = main
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
        context = click.Context(command, parent=context)
    command.make_context(command.name, words, parent=context.parent)


@pytest.mark.parametrize("words", list(commands("sordini")), ids=" ".join)
def test_every_command_is_one_with_its_options(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text('{"version":1,"partitions":[]}')
    parse(words)


def test_a_command_that_is_none_would_be_noticed() -> None:
    with pytest.raises(click.UsageError):
        parse(["dev", "--broker", "3"])


def test_targets_services_and_files_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert all(f"\n{words[0]}:" in makefile for words in commands("make"))
    assert set(re.findall(r"\bbroker-\d(?=:29092| sordini\b|\n)", PAGE)) <= set(services)
    assert [
        file for file in re.findall(r"\bconfig/[\w./-]+\w", PAGE.replace("-N", "-1")) if not (ROOT / file).exists()
    ] == []
    assert [link for link in re.findall(r"\]\(([\w./-]+)", PAGE) if not (ROOT / "docs" / link).exists()] == []


def test_metrics_and_keys_are_there() -> None:
    metrics = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"\bsordini_\w+", PAGE) if f"`{name}`" not in metrics] == []
    keys = re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`", PAGE)
    assert len(keys) > 10
    others = ("coordination.sqlite", "client.rack")  # A file, and a consumer's key.
    assert [key for key in keys if key not in SETTINGS and key not in TOPIC_SETTINGS and key not in others] == []
