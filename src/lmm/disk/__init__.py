"""The disk: exact bytes, what others write too, what lies below a folder, what was agreed to."""
