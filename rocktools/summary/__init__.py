"""One run -> one versioned JSON document that holds its numbers, with their evidence, and reads back as it was."""
