"""Who may come in, and what holds model-written code: guards, login, keys, the isolation in force."""
