"""Which of our defences would be missed?  Each is switched off once, in a copy of the tree, and a test must fail for it."""
