"""Adapters: kept with their versions, brought in, compared, proven, tried out and used elsewhere."""
