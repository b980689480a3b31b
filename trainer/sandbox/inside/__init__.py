"""The half of the sandbox that runs inside it: standard library only, Python 3.9 or newer, few imports.

The host imports ``frames`` and ``tree`` from here too, so that both ends speak the same format.
"""
