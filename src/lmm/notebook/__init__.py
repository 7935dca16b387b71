"""What is written in a document: questions and edits, annotations, problems; how each is planned and placed."""
