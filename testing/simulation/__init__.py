"""A whole cluster and an application on one seeded event loop in virtual time.

virtual_loop.py       the loop, whose clock jumps to the first timer
simulated_pipe.py     one direction of a connection: delays, bounded buffers
simulated_network.py  sockets of the port, and cluster_network.py the hosts between which links are cut
forgetful_disk.py     files that forget what was not synced; simulated_disk.py lets their calls take time
trace.py              everything that happened, folded into one hash
"""
