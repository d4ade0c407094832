"""OpenTelemetry traces of slow requests: off unless `sordini.tracing.endpoint` is set, and nothing is imported then.

traced_service.py     in front of the services: the times of each request, and the bytes of a slow one
slow_request.py       what is kept of a slow request; which requests are slow, and how many of them are kept (pure)
message_rows.py       its messages: topic partitions and error codes (pure)
spans.py              its spans (pure)
span_export.py        the queue of slow requests, and the task that has their spans exported
exporter_process.py   the child process that encodes and sends spans; child.py is its side, ports.py the port
"""
