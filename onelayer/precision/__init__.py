"""Short floats: fp32, tf32, bf16, fp16 and fp8 as patterns of bits.

What lives here: the formats, what torch makes of a number in each of them, the view in which a bit
can be pressed, and the dtypes of an autocast region on a device that is not there. What may not:
rounding by rules of our own in Python, which lab 10 asks for; torch rounds, and the page takes the
nearest of all numbers that it has.
"""
