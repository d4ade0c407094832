"""The control of a test's brokers over HTTP, for programs in other languages and in other processes.

    curl, Go, Java ──┐
                     ├── HTTP, JSON ──► server.py ── endpoints.py ──► Kafka ──► Site
    RemoteSite ──────┘                              fields.py, shapes.py

fields.py       reads a request's JSON: what is wrong, where, and what is allowed
shapes.py       brokers, faults and requests as JSON
endpoints.py    each method and path, and what it does
server.py       HTTP in front of them, on a loop of its own
dev_command.py  `sordini dev`
dev_process.py  what it does with `--control`
child.py        the brokers' process of `isolation="process"`
remote_site.py  that process as a `Cluster`

docs/control.md is the reference. It is for tests: there is no authentication.
"""
