"""Books: their files in order, numbers, outputs of code, and the text as readers see it."""
