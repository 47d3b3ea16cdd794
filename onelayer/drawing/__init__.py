"""What all pictures share: stills drawn with matplotlib, and views to play with in JavaScript.

What lives here: where a mark of a picture goes and how it gets onto a page. What may not: facts
about tensors (each room draws its own), and anything that a page would have to fetch.
"""
