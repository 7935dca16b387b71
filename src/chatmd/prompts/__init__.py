"""What models are told by this package, as markdown files; a project may override each."""
