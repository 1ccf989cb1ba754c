"""Users and permissions. No KEP mentions them.

This package lets tests cover runs with restricted permissions, and the error messages of such runs, without a real
cluster. `HttpServer.add_user` sets the rules of a user. Roles, service accounts and quotas do not exist.
"""
