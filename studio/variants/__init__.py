"""Variants of a task: rows of values put in place of its placeholders."""
