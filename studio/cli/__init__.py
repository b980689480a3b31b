"""The ``rlvr`` command: the options of each family lie here, what they do in ``commands``, imported when it is used."""

from studio.cli.app import main

__all__ = ['main']
