"""What happens to a transaction, pure: `machine.py` takes events, and resumes what a former coordinator left undone.

`init_producer_id.py` and `producer_fencing.py` decide which producer of an id may go on, `added_partitions.py` what is
in the transaction, `completion.py` commit, abort and completion, `timeouts.py` what time alone does, `raised_end.py`
the epoch at its end (KIP-890).
"""
