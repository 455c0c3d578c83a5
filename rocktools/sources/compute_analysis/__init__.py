"""What `rocprof-compute analyze` leaves -> workloads, COMPUTE_KERNELS, COMPUTE_METRICS, COMPUTE_ROOFLINE.

* `results`: the frames, and how rows become them;
* `database`: databases of `--output-format db` (schemas 1.x and 2.x), through their views;
* `view_files`: folders of `--output-format csv` of 3.7 and later: a file for each of these views;
* `saved_tables`: folders of `--save-dfs` (3.0 to 3.3): a file for each table;
* `tool_version`: which version it was, and what the versions do differently.

All values are the tool's. Its times are those of serialised counter passes, and its rates are by these times.
"""
