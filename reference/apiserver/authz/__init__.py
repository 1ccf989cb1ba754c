"""Users and permissions. No KEP mentions them.

With them the tests cover what a run does under restricted permissions, and its error texts, without a real cluster. The
rules of a user come from `HttpServer.add_user`. There are no roles, service accounts, quotas or Pod Security Standards.
"""
