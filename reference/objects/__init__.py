"""Parts of API objects that several components read or write."""
