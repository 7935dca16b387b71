"""The command of this package."""
