"""From files to batches: text, vocabularies, tokens in mapped files, and windows that go on where they stopped."""
