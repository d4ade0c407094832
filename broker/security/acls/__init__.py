"""Access control entries: `acl_store.py` keeps them, `authorizer.py` decides by them, `acls_handler.py` serves them."""
