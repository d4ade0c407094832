"""Faults of requests, by script: what a broker does wrong with the requests that a rule selects.

names.py       APIs and error codes by the protocol's names
seen.py        the requests that clients have sent
selection.py   which requests, topics and partitions a rule is for
script.py      the rules of a site, which of them acts on a request (`Script.take`), and what each does
carrying.py    a response that leaves later, changed, or never
interposer.py  in front of a broker's handlers
"""
