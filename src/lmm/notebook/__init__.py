"""Questions, edits, annotations and problems in documents: how they are planned and placed."""
