"""The server's users, and what they may do. No KEP mentions them. Roles, service accounts and quotas do not exist."""
