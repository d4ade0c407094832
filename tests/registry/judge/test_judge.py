"""Our registry answers as Karapace does, or differently for a known reason; what Karapace answers was recorded.

`make registry-judge` records it anew (`record.py`). UPDATE=1 writes what ours answers where that differs.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sordini.registry.judging.judges import JudgingChildren
from tests.registry.judge.comparing import shape, undecided, with_ours
from tests.registry.judge.reasons import REASONS
from tests.registry.judge.transcript import Block, compact, parsed, paths, rendered, replayed
from tests.support.registries import RegistryWorld
from tests.support.registry_requests import Texts

REQUESTS_MIN = 200


def answers_of_ours(blocks: list[Block]) -> list[list[str]]:
    texts = Texts()
    with asyncio.Runner() as runner:
        # In a child, where Protobuf is compiled without a process for each schema.
        world = RegistryWorld(judge=JudgingChildren())

        def answer(line: str) -> str | None:
            request = texts.request(line)
            if request is None:
                return None
            body = None if request.body is None else request.body.encode()
            sent = runner.run(world.send(request.method, request.target, body))
            return f"{sent.status} {compact(sent.body.decode())}"

        found = replayed(blocks, answer)
        runner.run(world.registry.close())
        return found


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.stem)
def test_ours_answers_as_the_judge_or_as_the_reason_says(path: Path) -> None:
    written = path.read_text(encoding="utf-8")
    blocks = parsed(written)
    found = with_ours(blocks, answers_of_ours(blocks))
    if os.environ.get("UPDATE"):
        path.write_text(rendered(found), encoding="utf-8")
    else:
        assert rendered(found) == written
    assert undecided(found) == []


def test_every_reason_is_one_of_a_difference_and_there_are_enough_requests() -> None:
    exchanges = [
        one for path in paths() for block in parsed(path.read_text(encoding="utf-8")) for one in block.exchanges
    ]
    assert len(exchanges) >= REQUESTS_MIN
    assert {one.answered.why for one in exchanges if one.answered} - {None} == set(REASONS)


@pytest.mark.parametrize(
    "other",
    [
        '404 {"id":1}',
        '200 {"id":2}',
        '200 {"id":1,"version":1}',
        "200 [1]",
        "200 {}",
        '200 {"error_code":40401}',
    ],
)
def test_another_status_member_or_value_is_a_difference(other: str) -> None:
    assert shape('200 {"id":1}') != shape(other)


def test_texts_for_people_and_spaces_in_schemas_are_no_differences() -> None:
    assert shape('404 {"error_code":40401,"message":"a"}') == shape('404 {"message":"b","error_code":40401}')
    assert shape(r'200 {"schema":"{ \"type\": \"int\" }"}') == shape(r'200 {"schema":"{\"type\":\"int\"}","guid":"g"}')
    assert shape(r'200 {"schema":"\"int\""}') != shape(r'200 {"schema":"\"long\""}')


def test_a_request_without_an_answer_is_no_transcript() -> None:
    with pytest.raises(ValueError, match="2 requests have 1 answers"):
        parsed("GET /subjects\nGET /config\n----\n200 []\n")
