"""Views: what a notebook shows. Stills drawn with matplotlib, and views to play with in JavaScript.

What lives here: where each mark of a picture goes, and how it gets onto a page. What may not: facts
about tensors (they come from the modules above) and anything a page would have to fetch.
"""
