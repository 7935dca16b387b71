"""What a model would see of a file: messages, tools, and how many tokens they have."""
