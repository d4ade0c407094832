"""Bytes to values and back: the Kafka wire protocol, without sockets and without a clock.

`served_apis.py` is the one list of APIs and versions, `messages/` declares them, `codecs.py` compiles the declarations
to decoders and encoders. `request_pipeline.py` keeps responses in the order of requests and says which request may
start. `records/` has record batches of all formats, `printable.py` makes text from the wire safe to print.

Pure: imports nothing of the other rooms, nor asyncio, time, os or sockets. Never allocates what a length declares
before the bytes are there.
"""
