"""What grader and jail say to each other: frames, messages, and the channel that carries them.

What lives here: bytes and their meaning (docs/wire.md). What may not: processes, labs, verdicts.
"""
