"""Books: their files in order, their numbers, what was run in them, the text as readers see it."""
