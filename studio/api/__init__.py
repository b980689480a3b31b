"""The REST API: one file a resource, the same services as the pages, one shape for every error."""
