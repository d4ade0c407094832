"""Configuration: declared keys, the values in force, and changes at run time.

config.py and *_keys.py           the broker's keys; settings.py how a key is declared and read
topic_config.py, topic_configs.py a topic's keys, and the configurations of all topics
protection.py                     keys that request protection: served, refused or harmless
ignored_keys.py                   keys of Apache Kafka without effect here
dynamic.py                        the layers (KIP-226); admin.py writes changes, receiver.py applies them
environment.py                    keys as environment variables
"""
