"""rocpd: the SQLite databases of rocprofv3 and rocprof-sys, schema 3 to 3.0.5.

opening    a path -> a read-only connection, whatever state its writer left the file in
schema     a connection -> the processes in it and the tables each one really has
columns    a table -> numpy columns, fast, exact, with missing values kept apart
labels     kernel names, device labels
events, dispatches, counters, host, facts    tables -> the frames of rocktools.frames
health     what in a database cannot be trusted
repair     repaired and environment-free copies
"""
