"""Configuration: declared keys, the values in force, and changes at run time.

It has the keys of all rooms (`keys/`), because `Config` is one frozen value that is made of all groups; a room takes
its own group (`GroupSettings`). It imports no other room of the broker, and writes into the coordination store only
passwords that are renewed (`password_renewal.py`) and the settings of entities (`entity_admin.py`).

config.py                         the broker's keys together; settings.py how a key is declared and read
topic_config.py, topic_configs.py a topic's keys, and the configurations of all topics
protection/                       keys that request protection: served, refused or harmless; logins by listener
dynamic.py                        the layers (KIP-226): broker, cluster, file, defaults
edits.py, resources.py            changes as requests name them
environment.py                    keys as environment variables
"""
