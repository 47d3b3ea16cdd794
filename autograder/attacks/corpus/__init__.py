"""The attacks, one per file. A file's name is the attack's, its docstring the strategy."""
