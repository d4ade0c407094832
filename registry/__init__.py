"""A schema registry beside any Kafka cluster: `sordini registry`, whose records are in the compacted topic `_schemas`.

    HTTP -> uvicorn -> RequestGate (login, access, limits) -> handlers -> Registry -> state (pure): a decision
                                                                            |  ^
                                         another registry that writes <-----+  | records, when they are committed
                                                                            v  |
                                                          Journal (journal/) -> _schemas

`state/` is what the records say, and the decisions: records to be appended, and an answer. Only records that were read
back from the topic change the state. `judging/` runs what takes processor time, the parsing and comparing of schemas,
outside of the process that serves. `journal/` is the topic and the election of the one registry that writes to it.

May import `cli` and what is below it. Never reads a broker's files; other registries read its records, and it theirs.
"""
