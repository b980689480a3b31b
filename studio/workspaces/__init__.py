"""Workspaces of tasks: worked in by hand, kept when an episode ends, looked at and graded again."""
