"""Report which abilities a machine or cluster lacks, how to add them, and which requirements need them."""
