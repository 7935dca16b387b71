"""The prompts of this package, as markdown files; a project may override each."""
