"""Schemas as a registry has them: parsed with their references, in canonical form, and compared with earlier ones.

`types.py` has the values and the port, `parsing.py` the way from a text to a parsed schema of its kind,
`compatibility.py` the seven levels, `fingerprints.py` the ids that follow from a schema alone, `wire.py` the bytes
before a registered value, and `registered_codecs.py` the codec of such a schema. `avro/`, `json/` and `protobuf/` are
the kinds; a library is imported when a schema of its kind is parsed for the first time.
"""
