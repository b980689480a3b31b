"""``python -m studio``: the same as the ``rlvr`` command."""

from studio.cli import main

if __name__ == '__main__':
    main()
