"""The log of students' questions and the answers to them: one row per exchange, in SQLite or PostgreSQL."""
