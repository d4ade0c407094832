"""The dead letters of share groups (KIP-1191): one record for each record that is not delivered any more.

    share partition ── ARCHIVING ──► writer ── one batch ──► leader of the dead-letter topic's partition
           ▲                           │ refused, not reached: again after a pause, until it is written
           └────── then ARCHIVED ──────┘

Dead letters are written before their records are archived, so none is lost. A leader that fails in between, or an
append whose answer is lost, leaves them to be written once more.
"""
