"""What happens to traffic while endpoints terminate."""
