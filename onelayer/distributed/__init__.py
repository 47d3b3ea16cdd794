"""Ranks: a function of a notebook cell on several processes, and what each of them computes and
sends.

What lives here: how ranks are started, watched and told about. What may not: how it is shown, which
is `onelayer.drawing`.
"""
