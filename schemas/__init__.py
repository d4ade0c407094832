"""Schemas of keys and values: bytes of Avro, Protobuf and JSON as what JSON can express, and back.

`codecs.py` has the port and the errors; `avro.py`, `protobuf.py` and `json_schema.py` the kinds, each over a library of
the extra `schemas`, which is imported only when a schema of the kind is read. `schema_files.py` reads a schema from a
file; `registered/` has schemas as a registry has them. Nothing here knows a broker.
"""
