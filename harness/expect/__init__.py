"""What scenarios expect of traffic, hints and all else that can be seen, and how it is judged."""
