"""Changes of rows: what records say of them, and what is left of a batch of changes.

A record of a topic is a change, or two (a row whose key changes moves), or nothing (a transaction's begin and end).
`envelope.py` reads that from Debezium's envelope and from plain records; `decoding.py` makes columns of it, with a
reason for each record that does not fit; `collapse.py` keeps the newest change of each key of a batch. What is done
with those is a table's: see `tables/upsert.py`.
"""
