"""Schemas of events: one definition, from which Spark's types, JSON Schema and Avro are derived.

`fields.py` is the definition, `named.py` the events that come with Sordini, `avro.py` reads and writes Avro's form of a
schema, `decoding.py` converts record values to columns, with a reason for each value that does not fit.
"""
