"""The site: chapters and labs as pages that need no kernel and no network.

What lives here: which notebook becomes which page, the pages that are no notebook, Sphinx's
configuration and the style. What may not: text about PyTorch, which belongs into a chapter.

    python -m book                    the public site, solutions behind a fold
    python -m book --audience class   without solutions
"""
