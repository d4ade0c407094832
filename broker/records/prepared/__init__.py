"""Requests that repeat, served without decoding.

A producer sends the same request again and again: only the correlation id, the sequence and the records differ. To
decode it, to walk handlers and to encode a response costs more than the append. This room keeps, for requests that
were served, the bytes they have in common:

    frame ─► Dispatcher.serve ── version, API and prefix known? ── no ──► decoder ─► handler ─► encoder
                   │ yes                                                      ▲         │ served: learn the prefix
                   ▼                                                          │
        PreparedRequest.serve: leader, settings, header, CRC, records ── unusual, nothing done
                   │
                   ▼
        Partition.append ─► finish_appends ─► response packed into a template

 - One comparison of bytes decides that a request has the shape of an earlier one. The prefix is what our own encoder
   writes, so no two readings of it are possible.
 - The general way stays the definition. A prepared request serves, or declines with nothing done, and a law compares
   what it serves with the general way: two brokers, one without this room, are the same after any bytes.
 - What may change is compared again at one place, the top of `serve`: the leader object (one for each leader epoch) and
   the settings object (one for each configuration). A check that is added to the general way belongs there, too.
 - Fetch of one partition at its end enters the purgatory by the same `WaitingFetch` as in the general way.

Handlers know nothing of it. The same idea on the other side of replication is `replication/fetching/tail_rounds.py`.
"""
