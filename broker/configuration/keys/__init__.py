"""Where keys are declared, one module for each group: name, rule, default, meaning.

ignored_keys.py and harmless_keys.py have keys of Apache Kafka without effect here; kraft_keys.py those of KRaft mode.
"""
