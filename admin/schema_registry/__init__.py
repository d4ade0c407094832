"""What a program may request of a schema registry, Sordini's or another with the REST API of Confluent's.

`access.py` says where it is and with which login; `exchange.py` sends one request, `registry_requests.py` has the
requests as functions of values, and `sources.py` finds schemas with what they refer to. All of it blocks: an event loop
calls it in a thread.
"""
