"""A real PostgreSQL whose changes, as Debezium sends them, become a table while its writers are killed.

    python -m tests.pipeline.upserts --changes 5000000 --keys 1000000 --kills 100

`make upserts` runs this; ARGS gives another scale. The changes are made by PostgreSQL's logical decoding (wal2json);
`debezium.py` turns them into Debezium's envelope, which is written as JSON, or with `--values avro` by the schemas of
a registry (`avro_records.py`). In the end the table is compared with PostgreSQL's, row by row.
"""
