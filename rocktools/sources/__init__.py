"""Readers: what tools wrote -> frames. No interpretation happens here, and no file of the user's is ever changed."""
