"""Users and permissions. No KEP mentions them.

They let tests cover runs with restricted permissions, and the error messages of such runs, without a real cluster. The
rules of a user come from `HttpServer.add_user`. There are no roles, service accounts, quotas or Pod Security Standards.
"""
