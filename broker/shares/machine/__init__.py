"""A share partition: which records are in flight, who holds them, and what became of them. Pure.

    start offset                                                end offset
        │  acknowledged  available (2)  acquired by a, until t   │  never acquired
    ────┼────────────────────────────────────────────────────────┼──────────────────► offsets
        └ in-flight batches, each of parts in one state ─────────┘

`share_partition.py` has the state, `acquisition.py` what a member gets, `acknowledgement.py` what it may say of it,
`change.py` what is to be written before that is in force.
"""
