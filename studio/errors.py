"""Errors that any service raises; those of one service lie in its ``views``. The tree is in ``trainer.errors``."""

from trainer.errors import StoreError


class NotFound(StoreError):
    """There is nothing with this id."""
