"""The views of a rocpd database that are more than look-ups: a second shape of the samples, and the three summaries.

SELECT texts of our own, by view name, in the order of the stock file; they read the unsuffixed views. The summaries
report microseconds and add up durations, as the stock ones do: what overlaps is counted twice, so `Busy` may exceed 1.
"""

from __future__ import annotations

from types import MappingProxyType

SAMPLE_VIEWS = MappingProxyType(
    {
        # The stock view spells one of these columns in capitals.
        "sample_regions": """
SELECT id, guid, category, name, nid, pid, tid, timestamp AS start, timestamp AS END,
    timestamp - timestamp AS duration, event_id, stack_id, parent_stack_id, corr_id, extdata, call_stack, line_info
FROM samples""",
        "regions_and_samples": "SELECT * FROM regions UNION ALL SELECT * FROM sample_regions",
    }
)

_TOP_KERNELS = """
WITH spent(name, ns) AS (
    SELECT S.display_name, K.end - K.start
    FROM rocpd_kernel_dispatch AS K JOIN rocpd_info_kernel_symbol AS S ON S.id = K.kernel_id AND S.guid = K.guid
)
SELECT name, COUNT(*) AS total_calls, SUM(ns) / 1000.0 AS total_duration, (SUM(ns) / COUNT(*)) / 1000.0 AS average,
    SUM(ns) * 100.0 / (SELECT SUM(D.end - D.start) FROM rocpd_kernel_dispatch AS D) AS percentage
FROM spent GROUP BY name ORDER BY 3 DESC"""

_BUSY = """
WITH work(agent_id, guid, begins, ends) AS (
    SELECT agent_id, guid, start, "end" FROM rocpd_kernel_dispatch
    UNION ALL
    SELECT dst_agent_id, guid, start, "end" FROM rocpd_memory_copy
)
SELECT W.agent_id AS agent_id, G.type AS type, SUM(W.ends - W.begins) AS GpuTime, wall.ns AS WallTime,
    SUM(W.ends - W.begins) * 1.0 / wall.ns AS Busy
FROM work AS W
    JOIN rocpd_info_agent AS G ON G.id = W.agent_id AND G.guid = W.guid
    CROSS JOIN (SELECT MAX(ends) - MIN(begins) AS ns FROM work) AS wall
GROUP BY W.agent_id, W.guid"""

# `whole` spans all work, also what has no name and so no row of its own.
_TOP = """
WITH spent(name, ns) AS (
    SELECT S.display_name, K.end - K.start FROM rocpd_kernel_dispatch AS K
        JOIN rocpd_info_kernel_symbol AS S ON S.id = K.kernel_id AND S.guid = K.guid
    UNION ALL
    SELECT S.string, C.end - C.start FROM rocpd_memory_copy AS C
        JOIN rocpd_string AS S ON S.id = C.name_id AND S.guid = C.guid
    UNION ALL
    SELECT S.string, R.end - R.start FROM rocpd_region AS R
        JOIN rocpd_string AS S ON S.id = R.name_id AND S.guid = R.guid
), whole(ns) AS (
    SELECT SUM("end" - start) FROM (
        SELECT start, "end" FROM rocpd_kernel_dispatch
        UNION ALL SELECT start, "end" FROM rocpd_memory_copy
        UNION ALL SELECT start, "end" FROM rocpd_region
    )
)
SELECT name, COUNT(*) AS total_calls, SUM(spent.ns) / 1000.0 AS total_duration,
    (SUM(spent.ns) / COUNT(*)) / 1000.0 AS average, SUM(spent.ns) * 100.0 / whole.ns AS percentage
FROM spent CROSS JOIN whole GROUP BY name ORDER BY 3 DESC"""

SUMMARY_VIEWS = MappingProxyType({"top_kernels": _TOP_KERNELS, "busy": _BUSY, "top": _TOP})
