"""Parts of API objects that more than one component reads or writes."""
