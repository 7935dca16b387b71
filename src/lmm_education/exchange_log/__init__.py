"""The log of what students asked and what they were answered: one row per exchange, in an SQLite file."""
