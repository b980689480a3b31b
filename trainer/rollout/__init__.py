"""Episodes: prompt → turns with tools in a sandbox → verdict, many side by side, each one recorded."""
