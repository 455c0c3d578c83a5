"""One kernel of a job as a small program of its own, and the proof that it is the same kernel."""
