"""What a scenario says: its cluster, its nodes, and what it expects."""
