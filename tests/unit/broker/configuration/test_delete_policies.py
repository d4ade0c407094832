"""Delete policies of installed packages are found by name, and cannot be set over the wire."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.delete_policies import KEY, load_policies
from sordini.broker.configuration.settings import ConfigError
from sordini.protocol.types import TopicPartition
from sordini.storage.log_config import LogConfig
from sordini.storage.retention import BUILT_IN, RetentionContext, SegmentAge

MODULE = """
class HalfOfThem:
    def due(self, segments, context):
        return len(segments) // 2

class Mute:
    pass

def broken():
    raise RuntimeError("no licence")
"""
ENTRY_POINTS = """
[sordini.delete_policies]
half = archive_policies_of_a_test:HalfOfThem
mute = archive_policies_of_a_test:Mute
broken = archive_policies_of_a_test:broken
gone = archive_policies_of_a_test:Nothing
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution on the path, as pip would have unpacked it."""
    (tmp_path / "archive_policies_of_a_test.py").write_text(MODULE)
    info = tmp_path / "archive_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: archive-policies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "archive_policies_of_a_test", raising=False)


def test_the_built_in_policies_are_the_default() -> None:
    default = SETTINGS[KEY][1].default
    assert load_policies(default) == (BUILT_IN["time"], BUILT_IN["size"])
    assert load_policies("") == ()


@pytest.mark.usefixtures("installed")
def test_an_entry_point_is_found_by_its_name_and_asked() -> None:
    size, half = load_policies("size, half")
    assert size is BUILT_IN["size"]
    segments = [SegmentAge(number + 1, 10, 0, number == 5) for number in range(6)]
    assert half.due(segments, RetentionContext(TopicPartition("t", 0), 0, 60, 0, 6, LogConfig())) == 3


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hlaf", "allowed are time, size, broken, gone, half, mute"),
        ("broken", "no licence"),
        ("gone", "archive_policies_of_a_test:Nothing raised AttributeError"),
        ("mute", "has no method `due`"),
    ],
)
def test_a_policy_that_cannot_be_had_is_refused_saying_why_and_what_there_is(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=KEY) as raised:
        load_policies(f"time,{name}")
    assert says in str(raised.value)


def test_the_key_is_read_only() -> None:
    assert not SETTINGS[KEY][1].is_dynamic
