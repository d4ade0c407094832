"""Who a peer is and what it may do: certificates, logins, access control entries, the audit log.

`rules/` has what the rules of all APIs are made of; the rule of an API stands in its route, in the room of its subject.
"""
