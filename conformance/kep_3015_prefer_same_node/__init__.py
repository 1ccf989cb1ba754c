"""KEP-3015: PreferSameZone and PreferSameNode."""
