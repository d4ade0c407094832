"""`sordini topics pack` and `describe-pack`: which slice, through which mask, into which file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sordini.packs.pack_reader import open_pack, records_of
from sordini.protocol.records.batch import Record
from sordini.testing import Kafka, KitRecord, read_pack
from tests.testing.clients import producer
from tests.testing.packs.conftest import pack, refused, run
from tests.testing.packs.made_packs import Given, write


def offsets(path: Path) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in read_pack(path)]


@pytest.fixture
def orders(brokers: Kafka) -> str:
    """A topic of two partitions: records at the times 1,000,000,000 to 1,000,000,004, and three at 0."""
    name = brokers.topic(partitions=2)
    for number in range(5):
        brokers.produce(name, b"%d" % number, key="k", headers={"h": None}, timestamp_ms=1_000_000_000 + number)
    brokers.produce(name, [b"x", None, b"z"], partition=1, timestamp_ms=0)
    return name


@pytest.mark.parametrize(
    ("words", "first", "second"),
    [
        ("", (0, 5), (0, 3)),
        ("--from-offset 2", (2, 5), (2, 3)),
        ("--from-offset 4 --to-offset 900", (4, 5), (3, 3)),
        ("--to-offset 2", (0, 2), (0, 2)),
        ("--from-time 1000000002", (2, 5), (3, 3)),
        ("--from-time 1970-01-12T14:46:40.002+01:00", (2, 5), (3, 3)),
        ("--to-time 1970-01-12T13:46:40.001Z", (0, 1), (0, 3)),
        ("--from-time 1000000001 --to-offset 3", (1, 3), (3, 3)),
        ("--max-records 2", (0, 2), (0, 2)),
        ("--from-offset 1 --max-records 1", (1, 2), (1, 2)),
    ],
)
def test_a_slice_is_chosen_by_offsets_times_and_counts(
    brokers: Kafka, orders: str, tmp_path: Path, words: str, first: tuple[int, int], second: tuple[int, int]
) -> None:
    said = pack(brokers, tmp_path / "a", orders, *words.split())
    assert [(row["start_offset"], row["end_offset"]) for row in said["slices"]] == [first, second]
    assert [row["records"] for row in said["slices"]] == [first[1] - first[0], second[1] - second[0]]
    assert offsets(tmp_path / "a") == [(0, one) for one in range(*first)] + [(1, one) for one in range(*second)]


def test_partitions_and_topics_can_be_chosen(brokers: Kafka, orders: str, tmp_path: Path) -> None:
    other = brokers.topic("a-first-one")
    brokers.produce(other, "one")
    pack(brokers, tmp_path / "a", f"{orders}:1", other, f"{orders}:1")
    found = open_pack(str(tmp_path / "a"))
    assert [(one.topic, one.partition) for one in found.slices] == [(other, 0), (orders, 1)]
    assert {name: one.partitions for name, one in found.topics.items()} == {other: 1, orders: 2}


def test_what_is_appended_meanwhile_is_not_read(brokers: Kafka, tmp_path: Path) -> None:
    orders = brokers.topic()
    brokers.produce(orders, ["one", "two"])
    with brokers.on("Fetch", topic=orders, times=1).hold(before=True) as held:
        packing = threading.Thread(target=pack, args=(brokers, tmp_path / "a", orders))
        packing.start()
        brokers.wait_for(lambda: held.used == 1)
        brokers.produce(orders, "three")
        held.release()
        packing.join(20)
    assert offsets(tmp_path / "a") == [(0, 0), (0, 1)]


def test_aborted_and_open_transactions_are_left_out_unless_asked_for(brokers: Kafka, tmp_path: Path) -> None:
    orders = brokers.topic()
    writer = producer(brokers, **{"transactional.id": orders})
    writer.init_transactions(20)
    for value, ends in (("no", "abort"), ("yes", "commit"), ("not yet", "")):
        writer.begin_transaction()
        writer.produce(orders, value)
        writer.flush(20)
        if ends:
            getattr(writer, f"{ends}_transaction")(20)
    said = pack(brokers, tmp_path / "a", orders)
    assert [(one.offset, one.text) for one in read_pack(tmp_path / "a")] == [(2, "yes")]
    assert said["slices"][0]["end_offset"] == 4
    pack(brokers, tmp_path / "b", orders, "--isolation", "read_uncommitted")
    assert [(one.offset, one.text) for one in read_pack(tmp_path / "b")] == [(0, "no"), (2, "yes"), (4, "not yet")]
    writer.abort_transaction(20)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_are_read(brokers: Kafka, tmp_path: Path, codec: str) -> None:
    orders = brokers.topic()
    writer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "compression.type": codec, "linger.ms": 50})
    values = [b"value %d" % number for number in range(50)]
    for value in values:
        writer.produce(orders, value)
    assert writer.flush(20) == 0
    pack(brokers, tmp_path / "a", orders, "--compression", "zstd", "--from-offset", "3")
    assert [one.value for one in read_pack(tmp_path / "a")] == values[3:]


def test_the_same_records_give_the_same_bytes(brokers: Kafka, orders: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        pack(brokers, tmp_path / name, orders)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    sizes = {}
    many = brokers.topic()
    brokers.produce(many, ["the same value"] * 1_000)
    for codec in ("none", "gzip", "zstd"):
        sizes[codec] = pack(brokers, tmp_path / codec, many, "--compression", codec)["bytes"]
        assert sizes[codec] == (tmp_path / codec).stat().st_size
        assert [one.value for one in read_pack(tmp_path / codec)] == [b"the same value"] * 1_000
    assert max(sizes["gzip"], sizes["zstd"]) < sizes["none"] / 3
    assert b"the same value" in (tmp_path / "none").read_bytes()


def test_settings_that_are_not_at_their_defaults_are_in_the_pack(brokers: Kafka, tmp_path: Path) -> None:
    orders = brokers.topic(config={"cleanup.policy": "compact", "max.message.bytes": 2_000_000})
    pack(brokers, tmp_path / "a", orders)
    configs = open_pack(str(tmp_path / "a")).topics[orders].configs
    assert (configs["cleanup.policy"], configs["max.message.bytes"]) == ("compact", "2000000")
    assert "retention.ms" not in configs


MASKS = """
def hide(record):
    if record.offset == 1:
        return None
    return record._replace(key=None, value={"was": record.text}, headers=[("h", "masked")], timestamp_ms=7)


class Masks:
    @staticmethod
    def fail(record):
        raise KeyError("name")


def moved(record):
    return record._replace(offset=9)


def tuple_of(record):
    return ("a", "b")


def timeless(record):
    return record._replace(timestamp_ms=None)


def nameless(record):
    return record._replace(headers=[(b"h", None)])


number = 5
"""


@pytest.fixture
def masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current directory."""
    name = f"masks_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MASKS)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_mask_replaces_records_and_leaves_some_out(brokers: Kafka, orders: str, masks: str, tmp_path: Path) -> None:
    said = pack(brokers, tmp_path / "a", f"{orders}:0", "--mask", f"{masks}:hide")
    assert said["slices"][0] | {"records": 4, "left_out": 1, "end_offset": 5} == said["slices"][0]
    found = list(read_pack(tmp_path / "a"))
    assert [one.offset for one in found] == [0, 2, 3, 4]
    assert found[0] == KitRecord(orders, 0, 0, 7, None, b'{"was": "0"}', (("h", b"masked"),))
    assert open_pack(str(tmp_path / "a")).header.mask == f"{masks}:hide"
    pack(brokers, tmp_path / "b", f"{orders}:0", "--mask", f"{masks}:hide", "--max-records", "2")
    assert offsets(tmp_path / "b") == [(0, 0), (0, 2)]


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ("Masks.fail", "failed at partition 0 of topic '{0}', offset 0: KeyError: 'name' ({1}.py, line 11)"),
        (
            "moved",
            "failed at partition 0 of topic '{0}', offset 0: ValueError: it moved the record to {0}-0@9: a record",
        ),
        ("tuple_of", "offset 0: TypeError: it returned tuple: allowed are a KitRecord, such as record._replace(...)"),
        ("timeless", "offset 0: ValueError: timestamp_ms=None: allowed are milliseconds since 1970, and -1 for none"),
        ("nameless", "offset 0: TypeError: header b'h': allowed is a text as its name"),
        ("none", "AttributeError: module '{1}' has no attribute 'none'"),
        ("number", "it cannot be called"),
    ],
)
def test_a_mask_that_fails_is_named_with_the_record_and_leaves_no_file(
    brokers: Kafka, orders: str, masks: str, tmp_path: Path, mask: str, said: str
) -> None:
    error = refused(brokers, "pack", orders, "-o", "a.pack", "--mask", f"{masks}:{mask}")
    assert error.startswith(f"sordini: --mask {masks}:{mask}")
    assert said.format(orders, masks) in error
    assert not [one.name for one in tmp_path.iterdir() if "pack" in one.name]


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ("masks", "'masks' is not MODULE:CALLABLE, such as shop.masks:hide"),
        ("no_such_module:hide", "no_such_module:hide: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_mask_that_cannot_be_imported_is_refused(brokers: Kafka, mask: str, said: str) -> None:
    assert refused(brokers, "pack", "none", "-o", "a.pack", "--mask", mask) == f"sordini: --mask {said}\n"


def test_a_file_is_replaced_only_by_force_and_by_a_whole_one(
    brokers: Kafka, orders: str, masks: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.pack"
    pack(brokers, path, orders)
    before = path.read_bytes()
    error = refused(brokers, "pack", orders, "-o", "a.pack")
    assert error == "sordini: a.pack: there is such a file; --force replaces it\n"
    refused(brokers, "pack", orders, "-o", "a.pack", "--force", "--mask", f"{masks}:Masks.fail")
    assert path.read_bytes() == before
    pack(brokers, path, orders, "--force", "--max-records", "1")
    assert offsets(path) == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("pack none -o {}", 1, "topic 'none': there is no such topic; "),
        ("pack orders:7 -o {}", 1, "topic '{topic}' has no partition 7 (it has 2, from 0 on)"),
        ("pack orders -o {none}/a", 1, "no such file or directory"),
        (
            "pack orders -o {} --from-offset 1 --from-time 2020-01-01",
            2,
            "--from-offset and --from-time: give one of them",
        ),
        ("pack orders -o {} --to-offset 1 --to-time 2020-01-01", 2, "--to-offset and --to-time: give one of them"),
        ("pack orders -o {} --from-offset 2 --to-offset 2", 2, "--to-offset must be after --from-offset"),
        ("pack orders -o {} --from-time 2020-01-02 --to-time 2020-01-01", 2, "--to-time must be after --from-time"),
        ("pack orders -o {} --from-time yesterday", 2, "or milliseconds since 1970"),
        ("pack orders -o {} --max-records 0", 2, "x>=1"),
        ("pack orders", 2, "Missing option '--output'"),
        ("pack -o {}", 2, "Missing argument"),
    ],
)
def test_what_cannot_be_packed_is_said_in_words(
    brokers: Kafka, orders: str, tmp_path: Path, words: str, code: int, said: str
) -> None:
    names = {"none": tmp_path / "none", "topic": orders}
    given = [word.replace("orders", orders).format(tmp_path / "a", **names) for word in words.split()]
    assert said.format(**names) in refused(brokers, *given, code=code)
    assert not list(tmp_path.iterdir())


def test_what_is_in_a_pack_is_described(brokers: Kafka, tmp_path: Path) -> None:
    rows = [(Record(8, 5, b"\xff", None, (("h\udcff", b"1"),)), True), (Record(9, 6, None, b"v"), False)]
    path = str(write(tmp_path / "a", {("orders", 3): Given(7, 12, rows)}, partitions=4, configs={"k": "v"}))
    done = run(brokers, "describe-pack", path)
    assert done.stdout.splitlines() == [
        "Cluster    a-cluster",
        "Isolation  read_committed",
        "Mask       -",
        "Topic      orders: 4 partitions  k=v",
        "",
        "TOPIC   PARTITION  FROM  TO  RECORDS",
        "orders          3     7  12        2",
    ]
    said = json.loads(run(brokers, "describe-pack", path, "--json").stdout)
    row = {"topic": "orders", "partition": 3, "start_offset": 7, "end_offset": 12, "records": 2}
    assert (said["slices"], said["bytes"]) == ([row], Path(path).stat().st_size)
    lines = [json.loads(line) for line in run(brokers, "describe-pack", path, "--records").stdout.splitlines()]
    assert [(line["offset"], line["timestamp"], line["timestamp_type"]) for line in lines] == [
        (8, 5, "append"),
        (9, 6, "create"),
    ]
    assert (lines[0]["key"], lines[0]["value"], lines[1]["value"]) == ({"base64": "/w=="}, None, "v")
    assert lines[0]["headers"] == [{"key": "h\ufffd", "value": "1"}]


def test_a_damaged_pack_is_reported_in_one_line(brokers: Kafka, tmp_path: Path) -> None:
    path = write(tmp_path / "a", {("orders", 0): Given(0, 1, [(Record(0, 0, None, b"v"), False)])})
    path.write_bytes(path.read_bytes()[:-1])
    size = path.stat().st_size
    error = refused(brokers, "describe-pack", str(path))
    assert error.startswith(f"sordini: {path} was cut off: it ends at byte {size}, in the frame of ")
    assert list(records_of(str(write(tmp_path / "b", {("orders", 0): Given(0, 0, [])})))) == []
