"""Formats tasks travel in. Each file reads and writes one of them; none knows the store."""
