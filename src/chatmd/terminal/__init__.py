"""Conversations in the terminal: `view` decides what is shown, `screen` shows it, `session` connects it to runs."""
