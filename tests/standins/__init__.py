"""Stand-ins for rocprofv3, rocprofv3-avail and rocpd: real executables that misbehave as the real ones do.

They are written from reference/rocprofv3.md and import nothing of the code under test but the database writer and the
floor, so a wrong option or a wrong assumption there meets an independent opinion here.

    install.py         puts the three executables into a folder; what tests call
    main.py            where an executable starts
    options_table.py   options of every version, as data      parser.py        argparse made from it
    versions.py        releases, what changed when            messages.py      what it prints
    passes.py          options -> application runs            input_files.py   `-i`
    environment.py     options -> ROCPROF_* variables         launcher.py      rocprofv3 itself
    application.py     one run: start, wait, how it ends      session.py       signals, ends, the log of calls
    tool.py            ROCPROF_* variables -> what is collected (the library's side of the real thing)
    filters.py, paths.py, device.py, scenario.py, timeline.py    what it knows
    output.py, database.py, json_results.py, csv_results.py      what it writes
    faults.py          misbehaviour on demand
    avail.py, rocpd_tool.py, app.py    the other executables, and a tiny application to be profiled
    running.py         a bench for the tests of the stand-ins themselves

Three environment variables steer them, and nothing else does:

    ROCKTOOLS_STANDIN_SCENARIO   JSON file: kernels, devices, processes (scenario.py)
    ROCKTOOLS_STANDIN_FAULT      comma-separated faults `name[:argument][@where]` (faults.py)
    ROCKTOOLS_STANDIN_STATE      folder: every call is logged in calls.jsonl, application runs are numbered
"""
