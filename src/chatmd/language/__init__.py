"""The ChatMD language: parse and serialize documents, interpret and check them. Nothing here writes files."""
