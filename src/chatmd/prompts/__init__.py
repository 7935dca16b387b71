"""The prompts of this package, as markdown files; a project can override each of them."""
