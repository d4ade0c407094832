"""Whether values begin with a schema id that is registered for their topic, and whether that schema decodes them
(`sordini.schema.validate`).

    records ──► schema_frames (protocol): the ids, by record ──► RegisteredIds: registered for `<topic>-value`? ──► row
        │                                                           ▲ read on demand
        │                                         the registry's topic, from its leader
        │                                                           ▼ read on demand, with `full`
        └──► DecodeJob: a child process, with the libraries ◄── RegisteredTexts: schemas with their references

A broker reads the registry's topic only when a record of a checked topic needs it: an id that is not known yet, or
what is known is older than some seconds. There is no task, and topics without the setting have no part in it.
"""
