"""Traces: what ran when, on the host and on the device, as `torch.profiler` writes it.

What lives here: training loops that are slow for one reason each, what profiles them, and the view
that puts two traces side by side. What may not: anything that finds the reason, which is asked in
lab 09, and any speed that was not measured.
"""
