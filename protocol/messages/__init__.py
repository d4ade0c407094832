"""Requests and responses: one module for each API, one field a line with its versions; `codecs.py` compiles them.

No behaviour: a rule about a message is in its handler. Names and defaults are those of the protocol's definitions.
"""
