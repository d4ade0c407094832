"""Slices of topics in one file: `sordini topics pack` writes it, the test kit loads it (`testing/packs/`).

It knows records and files, and neither brokers nor the kit: it imports `protocol` only.

A pack's batches cover their slice without a gap and are what a leader stores, so that offsets and the times of appends
are kept, which Produce requests could not. Lines of JSON would have no checksum, no ends of partitions, and no bytes
that are not text; `sordini topics describe-pack --records` prints them.

pack_format.py     the file: its frames, its header and its end
pack_writer.py     records to a file, which is there whole or not at all
pack_reader.py     a file to records, and what is in it
packed_records.py  a record as masks and tests have it
mask.py            the user's function that replaces records before they are written
"""
