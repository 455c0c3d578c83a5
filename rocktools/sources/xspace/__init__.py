"""xspace: the profiles of JAX (XSpace, *.xplane.pb or a .gz of one), written by jax.profiler.

wire, messages     protocol buffers by hand and by the library
content, opening   a path -> an open profile: planes, hosts, HLO protos
plane, plane_facts lines and their places; names and statistics of a plane
event_decoder      bytes of events -> columns, with numpy; event_decoder_numba: the same, compiled
events             one line's events, any statistic as a column
raw_lines          what was recorded, and what a converter derived
device_events, host_events, profiled_devices    planes -> the frames of rocktools.frames
health             what in a profile cannot be trusted
detect             whether a file is a profile
"""
