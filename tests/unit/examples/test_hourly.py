"""The hourly batch: its hours, the order of its steps, its output and its schedules."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from examples.hourly import batch
from examples.hourly.__main__ import parsed
from examples.hourly.batch import STEPS, Hour, Step, order_of, views, written
from examples.programs import ROOT, ExampleError

FOLDER = Path(batch.__file__).parent


def test_by_default_the_last_hour_that_is_over_is_computed() -> None:
    assert str(Hour.before(datetime(2026, 11, 26, 8, 10, tzinfo=UTC))) == "2026-11-26T07"
    assert str(Hour.before(datetime(2026, 11, 26, 0, 0, tzinfo=UTC))) == "2026-11-25T23"
    in_tokyo = datetime(2026, 11, 26, 8, 10, tzinfo=timezone(timedelta(hours=9)))
    assert str(Hour.before(in_tokyo)) == "2026-11-25T22"


def test_an_hour_can_be_named_and_anything_else_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--bootstrap", "b:1", "--directory", "d"]
    assert str(parsed([*common, "--hour", "2026-11-26T07"]).hour) == "2026-11-26T07"
    with pytest.raises(SystemExit):
        parsed([*common, "--hour", "yesterday"])
    assert "'yesterday' is no hour: allowed is 2026-11-26T07, in UTC" in capsys.readouterr().err


def test_every_step_comes_after_those_that_it_depends_on() -> None:
    ordered = order_of(STEPS)
    assert sorted(ordered) == sorted(STEPS)
    assert ordered.index("summary") > max(ordered.index("views"), ordered.index("searching"))


def test_a_circle_of_steps_and_an_unknown_name_are_errors() -> None:
    with pytest.raises(ExampleError, match=r"steps depend on each other: (a -> b -> a|b -> a -> b)"):
        order_of({"a": Step(["b"], views), "b": Step(["a"], views)})
    with pytest.raises(ExampleError, match="no step and no load is called visits"):
        order_of({"a": Step(["visits", "page_views"], views)})


def test_an_hour_s_output_is_replaced_as_a_whole(tmp_path: Path) -> None:
    hour = Hour(datetime(2026, 11, 26, 7, tzinfo=UTC))
    for count in (1, 2):
        path = written(tmp_path, hour, {"views": count})
        assert json.loads(path.read_text()) == {"hour": "2026-11-26T07", "views": count}
    assert [one.name for one in path.parent.iterdir()] == ["2026-11-26T07.json"]


@pytest.mark.parametrize("name", ["hourly.service", "hourly.cron"])
def test_a_schedule_starts_the_program_with_options_that_it_has(name: str) -> None:
    (command,) = re.findall(r"python -m (\S+) (.*)$", (FOLDER / name).read_text(), re.MULTILINE)
    assert (ROOT / command[0].replace(".", "/") / "__main__.py").is_file()
    assert parsed(command[1].split()).bootstrap == "localhost:9092"


def test_the_timer_is_of_the_service_and_once_an_hour() -> None:
    timer = (FOLDER / "hourly.timer").read_text()
    assert re.search(r"^OnCalendar=\*-\*-\* \*:10:00 UTC$", timer, re.MULTILINE)
    assert (FOLDER / "hourly.service").is_file(), "a timer starts the service of its own name"
    cron = (FOLDER / "hourly.cron").read_text()
    assert re.search(r"^10 \* \* \* \* sordini ", cron, re.MULTILINE)
