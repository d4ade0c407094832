"""The lag of pipeline jobs by their checkpoints, which the console is started with."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Producer

from sordini.testing import make_kafka
from tests.console.console_process import ConsoleProcess, words
from tests.console.scene import until


def checkpoint(folder: Path, offsets: dict[str, int] | None) -> Path:
    """As Spark writes one; without offsets its first batch is not done."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "commits").mkdir()
    (folder / "offsets" / "7").write_text("\n".join(["v1", "{}", json.dumps({"orders": offsets or {"0": 0}})]))
    if offsets is not None:
        (folder / "commits" / "7").write_text("v1\n{}")
    return folder


def test_checkpoints_have_their_lag_and_one_that_cannot_be_read_its_reason(tmp_path: Path) -> None:
    with make_kafka(topics={"orders": 2}) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for number in range(100):
            producer.produce("orders", b"order", partition=number % 2)
        assert producer.flush(30) == 0
        behind = checkpoint(tmp_path / "views", {"0": 20, "1": 50})
        first = checkpoint(tmp_path / "first", None)
        options = [f"--checkpoint={place}" for place in (behind, first, tmp_path / "missing")]
        (tmp_path / "console").mkdir()
        with ConsoleProcess(tmp_path / "console", kafka.bootstrap_servers, *options) as console:
            visitor = console.logged_in()
            text = words(visitor.get("/pipelines").text)
            assert f"{behind} Lag 30 records" in text
            assert "orders:0 20 50 30 " in text
            assert f"{first} The query has finished no batch yet." in text
            assert f"{tmp_path / 'missing'}: there is no such directory" in text
            (kind, part), (_, note) = visitor.events("/live/pipelines", 2)
            assert (kind, part["id"], note) == ("part", "pipelines", {"text": ""})
            assert "orders:0 20 50 30 " in words(part["html"])
            (behind / "offsets" / "8").write_text("\n".join(["v1", "{}", json.dumps({"orders": {"0": 50, "1": 50}})]))
            (behind / "commits" / "8").write_text("v1\n{}")
            until(lambda: "Lag 0 records" in words(visitor.get("/pipelines").text))


def test_without_a_checkpoint_the_page_says_how_to_name_one(tmp_path: Path) -> None:
    with make_kafka() as kafka, ConsoleProcess(tmp_path, kafka.bootstrap_servers) as console:
        text = words(console.logged_in().get("/pipelines").text)
    assert "With --checkpoint DIR , once for each query of Spark, this page has their lag" in text
