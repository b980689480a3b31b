"""The bundled starter model: the tutorial tasks, the demonstrations it was raised on and the program that builds it."""
