"""Opens a table by the name of its kind."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.tables.object_storage import NOWHERE, ObjectStorage
from sordini.pipeline.tables.staging import FileSettings
from sordini.pipeline.tables.table import Table

KINDS = ("delta", "iceberg")
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")
STORAGE_PREFIX = "storage."
CATALOG_PREFIX = "catalog."


def open_table(
    kind: str,
    location: str,
    *,
    app_id: str,
    partition_by: Sequence[str] = (),
    storage: ObjectStorage = NOWHERE,
    **options: str,
) -> Table:
    """The table at `location`, which may not exist yet; nothing is written before the first `append`.

    `kind` is one of KINDS, `location` a folder or URI that is the same for the driver and all executors. `app_id`
    identifies the writer: one query or job with one checkpoint. `partition_by` names the partition columns (used when
    the table is created). `storage` says how an object store is reached.

    Options, all strings: `compression` (zstd, snappy, gzip, lz4, none; default zstd), `file_bytes` (a task begins a new
    file when one has reached this size; default 134217728). Of Delta: `storage.*`, deltalake's storage options. Of
    Iceberg: `table` (default.<name of the folder> by default), `catalog.*`, pyiceberg's properties of a catalog (a
    SQLite file in the location by default). What is not a string is taken as its text.

    Raises BadSetting for an unknown kind or option.
    """
    if not app_id:
        raise BadSetting("a table's app_id must not be empty: it identifies the writer of a batch")
    rest = {name: str(value) for name, value in options.items()}
    check_options(kind, rest)
    settings = _file_settings(rest)
    columns = tuple(partition_by)
    table: Table
    match kind:
        case "delta":
            from sordini.pipeline.tables.delta.delta_lake import DeltaLake
            from sordini.pipeline.tables.delta.files import Access

            table = DeltaLake(location, app_id, columns, settings, Access(storage, _taken(rest, STORAGE_PREFIX)))
        case "iceberg":
            from sordini.pipeline.tables.iceberg.iceberg_table import Iceberg
            from sordini.pipeline.tables.iceberg.location import IcebergLocation

            iceberg_location = IcebergLocation(location, rest.pop("table", ""), _taken(rest, CATALOG_PREFIX), storage)
            table = Iceberg(iceberg_location, app_id, columns, settings)
        case _:
            raise AssertionError(f"{kind} was checked")
    assert not rest, "they were checked"
    return table


def check_options(kind: str, options: Mapping[str, str]) -> None:
    """Check the options of a kind of table, without importing its libraries. Raises BadSetting."""
    if kind not in KINDS:
        raise BadSetting(f"'{kind}' is no kind of table: {', '.join(KINDS)}")
    names = ("compression", "file_bytes", *(("table",) if kind == "iceberg" else ()))
    prefix = {"delta": STORAGE_PREFIX, "iceberg": CATALOG_PREFIX}.get(kind)
    for name in sorted(options):
        if name in names or (prefix and name.startswith(prefix) and name != prefix):
            continue
        can_be = (*names, *((f"{prefix}*",) if prefix else ()))
        near = difflib.get_close_matches(name, can_be, 1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise BadSetting(f"tables of kind '{kind}' have no option {name}; they have {', '.join(can_be)}{meant}")
    _file_settings(dict(options))


def _file_settings(options: dict[str, str]) -> FileSettings:
    compression = options.pop("compression", "zstd").lower()
    if compression not in COMPRESSIONS:
        raise BadSetting(f"compression '{compression}' is none of {', '.join(COMPRESSIONS)}")
    text = options.pop("file_bytes", str(FileSettings().file_bytes))
    if not text.isdecimal() or int(text) == 0:
        raise BadSetting(f"file_bytes is a number of bytes, at least 1, not '{text}'")
    return FileSettings(compression, int(text))


def _taken(options: dict[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): options.pop(name) for name in list(options) if name.startswith(prefix)}
