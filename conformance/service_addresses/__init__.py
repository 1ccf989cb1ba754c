"""The addresses of a Service: each of them reaches its endpoints."""
