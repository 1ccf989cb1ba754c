"""What several components read in objects of the API, or write to them: they must agree on it."""
