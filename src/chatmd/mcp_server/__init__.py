"""`lmm mcp`: a course and prompt files as tools, prompts and resources for other programs."""
