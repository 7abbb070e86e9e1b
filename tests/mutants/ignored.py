"""Generated mutants that no test has to notice, by module: the key of each, and why.

Equivalent means that the product does the same without it.  A test must notice all others.
"""

IGNORED: dict[str, dict[str, str]] = {}
