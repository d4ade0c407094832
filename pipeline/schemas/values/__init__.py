"""From values, as parsers return them, to values of columns, or to a reason that names the place. Pure.

A value of a column is what Arrow takes: whole numbers for times (microseconds) and dates (days), `Decimal`, bytes,
texts, lists, pairs of maps, dicts of structs. `plain_values.py` has the rules of plain kinds, `json_values.py` those of
JSON and of all that has its forms, `text_values.py` those of pairs of texts, `avro_values.py` those of Avro by its
writer's schema; `parsing.py` parses bytes, and `row_reader.py` makes the columns of many records.
"""
