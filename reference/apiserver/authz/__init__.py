"""Users and permissions. No KEP mentions them.

This package lets tests cover runs with restricted permissions, and the error messages of such runs, without a real
cluster. `HttpServer.add_user` sets the rules of a user. There are no roles, service accounts, quotas or Pod Security
Standards.
"""
