"""Brokers of the test kit: whole ones, on one event loop in a thread of the test's own process.

loop_processes.py  which broker a callback belongs to, so that one of several on a loop can be killed or paused
broker_loop.py     that loop, with a clock that can be moved forward
memory_disk.py     files in memory, which can be full or slow
network.py         the machine's sockets, which can be cut between brokers
store_session.py   a broker's session with the shared coordination store
inline_workers.py  compaction and the decoding of records without child processes
event_log.py       the log of a broker, of which the last lines are kept
node.py            one broker: start, stop, kill, pause
site.py            the thread, the store and all brokers
"""
