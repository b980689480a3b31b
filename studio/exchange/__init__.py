"""Formats tasks travel in. Each file reads and writes one of them; ``formats`` lists them; none knows the store."""
