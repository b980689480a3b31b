"""What runs inside the checker's sandbox beside the candidate's code: standard library (and pytest) only.

Each runner gets its request and its own source over the sandbox's private channel, so nothing of it lies in a file of
the sandbox, and it answers over that channel, which the candidate's programs do not inherit.

What this does not stop: code under test shares the process with the tests. Refused are frames, the garbage collector,
ctypes, foreign code objects and extension modules; noticed are changed functions of pytest and the standard library,
and objects that equal everything. It stays an arms race: where nothing may slip, let a ``script`` start the
candidate's program as a process of its own and compare what it prints.
"""
