"""kcat in a group: `-G`."""

from __future__ import annotations

from collections.abc import Callable

MakeTopic = Callable[..., str]
Kcat = Callable[..., str]


def test_a_group_at_the_shell_goes_on_where_it_had_stopped(kcat: Kcat, make_topic: MakeTopic) -> None:
    topic = make_topic()
    group = ["-G", f"group-{topic}", "-q", "-e", "-X", "auto.offset.reset=earliest"]
    kcat("-P", "-t", topic, "-p", "0", standard_input="a\nb\nc\n")
    assert kcat(*group, "-c", "2", topic).split() == ["a", "b"]
    kcat("-P", "-t", topic, "-p", "0", standard_input="d\n")
    assert kcat(*group, topic).split() == ["c", "d"]
    assert kcat(*group, topic).split() == []
