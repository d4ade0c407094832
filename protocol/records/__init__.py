"""Record batches of all message formats: headers, checks, compression, and what consumers return of them.

`produced_records.py` takes what producers send, in whichever format; `produce_validation.py` checks it by the topic's
rules, `legacy_validation.py` in the old formats, and `fetch_validation.py` what leaders send. `record_scan.py` chooses
how, by cost: columns (`record_runs.py`), the compiled reader, or a loop. `peek.py` reads facts from a batch's first
bytes. `jobs.py` is what a child process does with records, and `work_budget.py` what may be done on the loop instead.

Pure, as all of `protocol`. Never opens a compressed batch unless a rule needs its records.
"""
