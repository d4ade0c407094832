"""The REST API of a registry as transcripts: requests, `----`, and the answers.

A request is a method, an address and JSON; `@name: {...}` names a text of JSON for later requests, where `"@name"` is
that text. `records` shows what was appended since the last time. Each file is one scenario, with a registry of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.registries import RegistryWorld
from tests.support.registry_requests import Texts
from tests.support.transcripts import assert_as_written

STORIES = sorted((Path(__file__).parent / "registry").glob("*.txt"))


class Story:
    """One registry, and the names of texts."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._world = RegistryWorld()
        self._texts = Texts()
        self._shown = 0

    def answers(self, commands: Sequence[str]) -> list[str]:
        return [line for command in commands for line in self._answer(command)]

    def _answer(self, command: str) -> list[str]:
        if command == "records":
            new, self._shown = self._world.journal.log[self._shown :], len(self._world.journal.log)
            return [f"{key.decode()} -> {'null' if value is None else value.decode()}" for key, value in new]
        request = self._texts.request(command)
        if request is None:
            return []
        body = None if request.body is None else request.body.encode()
        answer = self._runner.run(self._world.send(request.method, request.target, body))
        return [f"{answer.status} {answer.body.decode().rstrip()}"]


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_a_registry_answers_as_its_transcript_says(story: Path) -> None:
    with asyncio.Runner() as runner:
        assert_as_written(story, Story(runner).answers)


def test_there_are_stories() -> None:
    assert len(STORIES) >= 9
