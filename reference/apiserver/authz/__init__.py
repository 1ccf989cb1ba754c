"""Users and permissions, which real clusters have and no KEP mentions.

Here so that a run's good manners on somebody's cluster, and its words when it is refused something, can be tested
without one. Users have their rules from who adds them (`HttpServer.add_user`); roles, service accounts, quotas and Pod
Security Standards are left to real clusters.
"""
