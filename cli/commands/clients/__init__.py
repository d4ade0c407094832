"""`sordini clients`: every broker is asked by `client_instances.py`; `client_texts.py` has the words."""
