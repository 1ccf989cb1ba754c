"""Check which abilities a machine or cluster lacks, how to fix this, and which requirements are affected."""
