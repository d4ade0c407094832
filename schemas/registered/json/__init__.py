"""JSON Schema, drafts 4, 6, 7, 2019-09 and 2020-12: schemas read with what they refer to, and compared."""
