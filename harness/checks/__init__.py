"""Check whether a machine or cluster lacks abilities, how to fix this, and which requirements it affects."""
