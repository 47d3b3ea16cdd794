"""What torch.compile does with a function, recorded: bytecode, graphs, guards, generated files.

What lives here: who watches a compilation, and who reads what it wrote. What may not: how it is
shown, which is `onelayer.drawing`.
"""
