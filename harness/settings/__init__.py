"""From options to settings: what is judged, what it claims, and which adapters make it."""
