"""The fault catalogue: one file per rule, each a description and a pure check of what a run left behind.

    rule       what a rule is, and what its check may answer
    inputs     what checks look at: frames, programs and declared results; each may be missing, with the reason
    catalog    every rule, the check of all of them, and the order of what they found
    step_times, exposure, kernel_work, rank_lateness, gradient_tail, program_values   measures that several rules share
    claims     what somebody says about a result: throughput, utilisation, memory, a comparison

Everything else is a rule. What the inputs are built from is not known here.
"""
