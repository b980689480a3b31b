"""Launchers start a trainer on a run folder, and end it with everything it started. Now: this machine."""

from studio.launchers.local import LocalLauncher

__all__ = ['LocalLauncher']
