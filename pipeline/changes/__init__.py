"""Changes of rows: what records say of them, and what is left of a batch of changes.

A record of a topic is a change, or two (a row whose key changes moves), or nothing (a transaction's begin and end).
`envelope.py` says what Debezium's envelope and plain records mean, `json_changes.py` and `registered_changes.py` (with
`registered_parts.py` in Spark's workers) read them; `decoding.py` makes columns of it, with a reason for each record
that does not fit; `collapse.py` keeps the newest change of each key of a batch. What is done with those is a table's:
see `tables/upsert.py`.
"""
