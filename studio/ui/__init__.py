"""The studio's pages in the browser: theme and shell here, parts in ``components``, one page per file in ``pages``."""
