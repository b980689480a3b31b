"""Runs: planned, queued and started; what they wrote, read back; measured, compared and exported."""
