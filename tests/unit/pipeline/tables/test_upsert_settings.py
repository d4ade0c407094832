"""What can be upserted: keys, sequences and marks of deletions, and the kinds of tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables import Upsert
from sordini.pipeline.tables.upsert import check_stored_keys, check_upsert

COLUMNS = pa.schema(
    {"id": pa.int64(), "at": pa.float64(), "tags": pa.list_(pa.string()), "name": pa.string(), "_deleted": pa.bool_()}
)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (Upsert(()), "an upsert needs keys"),
        (Upsert(("nid",)), "the key 'nid' is no column of the rows"),
        (Upsert(("tags",)), "the key 'tags' is list"),
        (Upsert(("at",)), "the key 'at' is double, which cannot be a key"),
        (Upsert(("id",), ("tags",)), "the sequence 'tags' is list"),
        (Upsert(("id",), ("lsn",)), "the sequence 'lsn' is no column"),
        (Upsert(("id",), deleted="gone"), "the mark of deletions 'gone' is no column"),
        (Upsert(("id",), deleted="name"), "the mark of deletions 'name' is string, not a boolean"),
    ],
)
def test_a_key_a_sequence_or_a_mark_that_cannot_be_one_is_refused_by_its_name(how: Upsert, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        check_upsert(how, COLUMNS)


def test_keys_of_several_columns_and_sequences_of_numbers_can_be() -> None:
    check_upsert(Upsert(("id", "name"), ("at", "id")), COLUMNS)


def test_other_keys_than_the_table_s_are_refused() -> None:
    check_stored_keys(["id"], Upsert(("id",)), "t")
    with pytest.raises(BadSetting, match="one row for each id, not for each id, name"):
        check_stored_keys(["id"], Upsert(("id", "name")), "t")
    with pytest.raises(BadSetting, match="rows that were appended, without keys"):
        check_stored_keys(None, Upsert(("id",)), "t")
