"""A stand-in for rocprof-compute: a real executable in nine releases that misbehaves as the real ones do.

Written from the reference and importing nothing of rocktools. How tests use it:

    program = install_compute(tmp_path / "rocm", version="3.10")    # tmp_path/rocm/bin/rocprof-compute, a Python script
    environment = compute_environment(program, scenario={...}, faults="no-data@slug", state=tmp_path / "state")

and then whatever is under test gets `program` (or the environment, whose PATH and ROCM_PATH lead to it). Versions are
the names in releases.RELEASES: 3.0, 3.3 (the sources of August 2025), 3.3.0-released, 3.4, 3.5 to 3.10.

**The application is started**, once for each pass, or once with multiplexing. Which kernels it launched, by the first
of these that says something:

1. lines of the application itself on stdout: `standin-launch: COUNT KERNEL NAME`
2. the scenario: {"workloads": {SLUG: [KERNEL, ...]}} or {"kernels": [KERNEL, ...]}, where a kernel is
   {"name": ..., "launches": 10, "duration_ns": 20000, "scale": 1.0, "values": {COUNTER: VALUE}}
3. nothing: ten launches of the kernel whose exact name `-k` asks for.

Other keys of a scenario: "passes": how many passes there are at most (starts of the application cost time; 20 by
default), "gpu_model" (MI355X), "gpu_arch" (gfx950). Values are those of a copy of 8 MiB on a real MI350, times "scale".

**Faults**: `name[:argument][@slug][#call],...`; `@slug` is for one workload, `#1` for the first call for it only (needs
a state folder), so that a second try succeeds. faults.py has their names.

**State folder**: calls.jsonl has a line for every call: argv, cwd, mode, the environment, and later its pid and code.

    install.py       makes the executable; what tests call          main.py       where it starts
    options_table.py options of every release, as data              parser.py     argparse made from it
    releases.py      what is true of a release                      faults.py     misbehaviour on demand
    profile.py       `profile`: refusals, passes, the application   planning.py   which counters in which pass
    device.py        launches and the values of counters            results.py    files of a workload
    analyze.py       `analyze`                                      metrics.py    counters -> metrics
    analysis_database.py   its SQLite file
"""
