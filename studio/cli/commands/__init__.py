"""What the subcommands of ``rlvr`` do, one file for each family. Each function returns the exit code."""
