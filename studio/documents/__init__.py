"""Task documents: drafts, versions and certificates of tasks; how they are found, changed, brought in and out."""
