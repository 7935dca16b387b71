"""Study material from the documents of a course."""
