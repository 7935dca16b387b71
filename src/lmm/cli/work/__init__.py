"""What the commands do once their arguments are read; imported only then."""
