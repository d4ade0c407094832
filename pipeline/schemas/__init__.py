"""What events look like: one definition, from which Spark's types, JSON Schema and Avro are made.

`fields.py` is the definition, `named.py` the events that come with Sordini, `avro.py` reads and writes Avro's form of a
schema, `decoding.py` makes columns of record values, with a reason for each value that it cannot make columns of.
"""
