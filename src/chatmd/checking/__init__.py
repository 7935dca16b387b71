"""What is wrong with files on disk: with their text, and with what they refer to."""
