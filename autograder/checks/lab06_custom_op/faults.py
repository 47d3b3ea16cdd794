"""The faults of a CUDA kernel, and what they mean in the kernels of this lab."""

from __future__ import annotations

OUT_OF_BOUNDS = (
    "What lies outside of a tensor, a tile or another array was touched. An element lies at its "
    "index times the strides of its own tensor. And N, V and D may be no multiples of a block or a "
    "tile: what hangs over the edge, a thread or a part of a tile, must not touch memory."
)
IMPOSSIBLE_LAUNCH = (
    "A launch that no GPU takes. Between <<< and >>> the grid comes first, then the block, of at "
    "most 1024 threads; and for N = 0 there is no block, so launch nothing."
)
RACE = (
    "Two threads meet at one place in memory with nothing between them. At a place of shared "
    "memory everybody waits between a write and the reads of it, and again before the next tile "
    "overwrites it. An element of y belongs to one thread."
)
DIVERGENT = (
    "Some threads wait at a barrier that others never reach. A thread beyond the edge must stay "
    "until the last __syncthreads(): mask its loads and its store, and let no return, break or "
    "continue take it past one."
)
UNWRITTEN = (
    "A thread read a place of shared memory that nobody had written. What lies outside of x or w "
    "counts as 0, and somebody has to write that 0."
)
IDLE_LAUNCH = (
    "N is 0, and the host function launches blocks all the same. Divide and round up, and without "
    "a row launch nothing."
)
SENTENCES = {
    "idle_launch": IDLE_LAUNCH,
    "out_of_bounds": OUT_OF_BOUNDS,
    "impossible_launch": IMPOSSIBLE_LAUNCH,
    "race": RACE,
    "divergent_barrier": DIVERGENT,
    "unwritten_shared": UNWRITTEN,
    "host_access": "The host function touched memory of the device. Only kernels may.",
    "unwritten_global": "A thread read a place of global memory that nobody had written. New "
    "memory holds anything, and y is full of NaN: add up in a variable of the thread, and store "
    "once.",
    "divergent_warp": "The mask of a warp's operation does not name the lanes that come to it, "
    "those and no others. All of them come, with one mask; a thread beyond the edge that it "
    "names must stay for it.",
    "undefined_shuffle": "A shuffle asked a lane that is not there: what comes is undefined. Only "
    "the lanes of the mask hand something over.",
    "invalid_free": "The host gave memory back that is not its own to give: free once what "
    "cudaMalloc gave, by the pointer that it gave, and never x, w, b or y.",
    "missing_return": "A function that promises a value ended without its return: what the caller "
    "gets then is undefined.",
    "division_by_zero": "An integer was divided by 0. N may be 0, and a size that is divided by 16 "
    "and rounded down may be too.",
    "assertion": "An assert of the kernel's own is false: what it claims does not hold here.",
    "misaligned": "A vector load or store at an address that is no multiple of its size: "
    "strides are anything here, and V too.",
    "stuck": "The kernel did not end. Does every loop move on, and does every thread reach the "
    "barrier?",
    "TypeError": "The host function is to be called `launch`, with the parameters that the page "
    "gives it.",
}
