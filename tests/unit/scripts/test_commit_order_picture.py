from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from scripts.commit_order_picture import DECISION, PICTURE, PLACES, STEPS, picture
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.library.commit_order import commits_of


def test_the_picture_in_the_documentation_is_what_the_script_draws() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture()


def test_the_picture_has_the_steps_of_explain_in_their_order() -> None:
    job = Job.of(
        home=Path("/lake"),
        name="views",
        source={"topics": ["views"], "commit_group": "views"},
        decode={"mode": "json", "schema": {"fields": {"page": "string!"}}},
        sink={"location": "t"},
    )
    said = (
        "offsets/N",
        "the rows' files",
        "the dead letters",
        "the rows, with the",
        "commits/N",
        "the offsets, in the",
    )
    commits = commits_of(job, "stream", "0")
    assert len(commits) == len(STEPS) == len(said)
    assert all(word in step for word, step in zip(said, commits, strict=True))
    assert PLACES[STEPS[DECISION].place] == "the table"
    assert "in one commit" in commits[DECISION]
    assert all(first != second for first, second in pairwise(STEPS))
