"""A server.properties and the machine it is for: what a broker with it would meet here.

    configuration   read as a broker reads it: values, keys that are unknown or without effect
    machine         limits of files, memory, the interpreter, the clock
    directories     log directories: space, file system, permissions, who uses them, whose they are
    listeners       ports and addresses, certificates and their names
    zookeeper       whether it answers, and whose tree is at the chroot

Nothing is started and nothing is changed: no directory is made, no file written, a port is bound and given back without
listening. A broker that runs already is recognized by its lock, and what it uses is not taken for a fault.
"""
