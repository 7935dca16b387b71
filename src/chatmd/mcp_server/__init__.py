"""`lmm mcp`: a course and prompt files as tools and prompts for other programs."""
