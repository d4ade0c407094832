"""Files of `sordini topics pack` (`sordini.packs`) in tests.

reading.py   `read_pack`: the records of a file
loading.py   `Kafka.load`: a file into the topics of a cluster
"""
