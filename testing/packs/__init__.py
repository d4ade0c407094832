"""Slices of topics in one file: `sordini topics pack` writes it, `Kafka.load` gives it to a test's brokers.

pack_format.py   the file: its frames, its header and its end
pack_writer.py   records to a file, which is there whole or not at all
pack_reader.py   a file to records, and what is in it
mask.py          the user's function that replaces records before they are written
loading.py       a file into the topics of a cluster
"""
