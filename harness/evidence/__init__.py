"""What a failure leaves behind, in words of the field: requests, decisions, and what happened when."""
