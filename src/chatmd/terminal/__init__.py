"""A conversation in the terminal: what is shown is decided in pure files, shown by `screen`, held by `session`."""
