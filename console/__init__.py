"""A page on a Kafka cluster in the browser: `sordini console`, a process of its own beside any cluster.

    browser -> uvicorn -> RequestLimits (host, rate, size) -> LoginGate (session, CSRF, read-only, errors) -> pages
                                                                                                         |
                                            admin/ and readers/ <- the visitor's own ClusterClient <-----+

HTML is made here by templates; what is live comes by server-sent events. `security/` is what a request must pass,
`pages/` the pages and changes, `readers/` what is read of the cluster for them, `records/` the search and the tail.

May import `cli` and what is below it. Never reads a broker's files, holds no credentials but those of the logged-in
visitors in memory, and sends no request but to the cluster.
"""
