"""Running a file: the loop of model and tools, and the transcript that grows on disk."""
