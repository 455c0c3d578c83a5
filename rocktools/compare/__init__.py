"""Two summaries -> what changed, whether they may be compared at all, and whether the change is one."""
