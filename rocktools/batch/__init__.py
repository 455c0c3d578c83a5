"""Lists of kernels under rocprof-compute: which, what each run costs, what came of it, and all results side by side."""
