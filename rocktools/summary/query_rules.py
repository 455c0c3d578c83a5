"""What can be asked, as sentences with holes: the language is that of query_pattern.py.

A line without indentation names an intent, or a class of words; below it stands one rule on each line, and what is
indented deeper goes on with the line above. Rules are tried from the top, so those whose holes take anything come last.
"""

from __future__ import annotations

CLASSES_TEXT = r"""
show
    [please] (show|list|give|print|display|tell|name) [me|us]
what
    what are|which are|what is|which is|what was|what were|which|what
is
    is|are|was|were
op
    op|ops|operation|operations|instruction|instructions|kernel|kernels|fusion|fusions|hlo ops|hlo op|
        hlo instructions|hlo instruction|gpu kernels
most
    top|hottest|hot|biggest|largest|slowest|longest|most expensive|heaviest|worst|costliest
comm
    comm|comms|communication|communications|collectives|collective communication|networking
compute
    compute|computation|computing|calculation
collective
    collective|collectives|collective op|collective ops|collective operation|collective operations|
        communication op|communication ops|communication operation|communication operations
device
    device|devices|gpu|gpus|rank|ranks|accelerator|accelerators|card|cards
slow
    slow|slower|slowest|late|latest|last|lagging|long|longer|longest|heavy|an outlier|the outlier|the straggler|
        a straggler|the bottleneck|behind|lagging behind|holding the others up|holding us back
run
    it|this|this one|the step|a step|the whole step|the run|this run|the job|training|the training step|
        the model|everything
by_time
    by|in terms of|sorted by|ranked by|ordered by
time
    [total|device|gpu|exclusive|self|kernel] (time|duration|durations|cost)
pass
    pass|phase|computation
phase
    forward|fwd|backward|bwd|rematerialized|rematerialised|rematerialization|remat|replay|replayed|recomputed|
        recomputation
memory_bound
    memory-bound|memory bound|bandwidth-bound|bandwidth bound|memory bandwidth bound|hbm-bound|hbm bound|
        bound by memory|bound by hbm|bound by bandwidth|bound by memory bandwidth|limited by memory|limited by hbm|
        limited by bandwidth|limited by memory bandwidth
compute_bound
    compute-bound|compute bound|flop-bound|flop bound|mfma-bound|mfma bound|math-bound|math bound|
        bound by compute|bound by flops|limited by compute|limited by flops|limited by math
other_bound
    latency-bound|latency bound|launch-bound|launch bound
bound
    <memory_bound>|<compute_bound>|<other_bound>|(memory|compute) or <compute_bound>|(memory|
        compute) or <memory_bound>|memory-bound or compute-bound|compute-bound or memory-bound
comm_bound
    comm-bound|comm bound|communication-bound|communication bound|network-bound|network bound|
        bound by communication|limited by communication
gap
    gap|gaps|idle gap|idle gaps|idle time|bubble|bubbles|stall|stalls|wait|hole|holes
before
    before|in front of|ahead of|preceding
region
    [hierarchical|nested] (regions|region|scopes|scope|named scopes|region tree|scope tree|region hierarchy|
        scope hierarchy|hierarchy)
faster
    faster|quicker|cheaper|better
sorted
    [<by_time> <time>]
in_phase
    [(in|of|during|for|from) [the] {phase:phase} [<pass>]]
within
    [(in|of|within|under|inside|for) [the] {within}]
thing
    [the] [<op>|component|scope]
by_compute
    [by|under|behind|with] [<compute>]
"""

RULES_TEXT = r"""
slow_step
    (why|how come) (<is>|did) step [number|no] {step:number} [so|this|that] [much] [<slow>|slow down]
    why step [number] {step:number} (<is>|took|takes) [so] [much] [<slow>]
    why (did|does) step [number] {step:number} take [so|that] [much] [long|longer|time] [(than|compared to)
        [the] (others|other steps|rest)]
    what (happened|happens|went wrong|is wrong|is going on|was different|is different) (in|with|during|at|about)
        step [number] {step:number}
    what (makes|made|slowed|slows|delayed|delays) step [number] {step:number} [down] [<slow>]
    (is|was) step [number] {step:number} <slow>
    (explain|analyze|analyse|<show>) step [number] {step:number}
    which (step|steps) <is> [the] <slow>
    why (<is>) [the] (slowest|longest|slow) (step|steps) [so] <slow>
    [<what>] [the] (slowest|longest) (step|steps)
    why (<is>|do) (some|the|a few|certain) steps [take] [so|much] <slow> [than (others|the others)]
slow_device
    (which|what) <device> (<is>) [the] [most] <slow>
    (which|what) <device> (lags|lags behind|arrives last|comes last|takes longest|is always last|holds the
        others up|holds us back|do the others wait for|do others wait for|does everyone wait for)
    <is> there (a|any|one) [slow|late|lagging] (straggler|stragglers|<device>) [that is <slow>]
    (who|<what>) [is] [the] [slow|slowest|late] (straggler|stragglers|slow|late|last|<device>)
    <is> [any|one|some] [of] [the] <device> <slow>
    <is> [the] <device> [well] (balanced|imbalanced|unbalanced|alike|even)
    [<show>] [the] (stragglers|straggler|slow device|slow devices|slow rank|slow ranks)
step_time
    how (long|fast|slow) (<is>|does|do|did) (a|the|one|each|every) (step|steps) [take|last]
    how long (do|does|did) (steps|it|one step) take
    [<show>] [<what>] [the|our|a] [median|mean|average] step (time|duration|times)
throughput
    how many tokens [do we get|are processed|do we process] (per|a|each) second [and device]
    [<what>] [the|our] (throughput|tokens per second|tokens/s|tokens/s/device|token rate)
memory
    how much [device|gpu|hbm|peak] (memory|hbm) (<is>|do|does|did) [we|it|the job|the program]
        (used|use|allocated|need|reserved|taken)
    [<what>] [the] [peak|highest|most] (memory|hbm) [footprint|usage|use|high-water mark|peak]
    (which|what) <device> (uses|needs|has|allocates) [the] most memory
compute_or_communication
    <is> [the|it] (<comm> or [the] <compute>|<compute> or [the] <comm>) (dominating|dominant|dominates|the
        bottleneck|larger|bigger|longer|worse|the problem|more|the limiter)
    (which|what) (dominates|is dominating|is larger|is longer|is more|takes longer|takes more time|costs more)
        (<comm> or <compute>|<compute> or <comm>)
    [<is>|does|do] (<comm>|<compute>) (dominate|dominates|dominating|dominant) [<run>]
    [<show>] [the|how is the|<what>] [the] (<compute>|<comm>) (vs|versus|against|and|or|to) (<compute>|<comm>)
        [time|times|share|shares|balance|ratio|split]
    <is> <run> <comm_bound>
exposed_communication
    how much [of] [the|our] [<comm>] [time] <is> [not] (exposed|hidden|overlapped|covered) <by_compute>
    how much [<is>] [exposed|hidden|unhidden] <comm> [<is> there|do we have|time <is> there]
    <is> [the|our] <comm> [well|fully] (hidden|exposed|overlapped|overlapping) <by_compute>
    how well (<is>|does|do) [the|our] <comm> (overlap|overlapped|hidden|overlaps) <by_compute>
    [<show>] [<what>] [the] (exposed|unhidden) (<comm>|<collective>) [time|share]
    (which|what) (<comm>|<collective>) <is> [most] (exposed|not hidden)
collectives
    (which|what) <collective> (<is>) [the] (<most>|most expensive)
    (which|what) <collective> (take|takes|took|cost|costs) [the] (most|longest) [<time>]
    [<show>] [<what>] [the] [<most>] [{count:number}] <collective> <sorted>
    [<show>] [the] (collective|communication) (breakdown|summary|kinds|table)
    how (long|much time) (do|does|did) [the|all] <collective> take
gap_before
    [<show>] [why is there|what causes|what is|what are|how long is|how big is|how large is|explain] [the|a|any]
        <gap> <before> [the] [<op>] {name}
    (why|how long) (does|is|did) (the <device>|it|<device>) (idle|wait|waits|waiting|stall|do nothing) <before>
        [the] [<op>] {name}
    what (happens|happened|is happening) [right|just] <before> [the] [<op>] {name}
gaps
    [<show>] [<what>|where are] [the] [<most>] [{count:number}] [pre-op] <gap>
    (why|when) <is> [the|a] <device> (idle|waiting|doing nothing|stalled)
    how much [of the] (idle time|time is idle|time is [the] <device> idle|time do devices idle) [<is> there|do
        we have]
    how (long|much) <is> [the] <device> idle
top_operations
    [<show>] [<what>] [the|our] <most> [{count:number}] <op> <sorted> <in_phase> <within>
    [<show>] [<what>] [the|our] <most> [{count:number}] {phase:phase} <op> <sorted> <within>
    [<show>] [<what>] [the] {count:number} <most> <op> <sorted> <in_phase> <within>
    (which|what) [{count:number}] <op> (take|takes|took|cost|costs|use|uses|spend|eat|dominate|have|has) [the]
        [most|longest] [<time>] <in_phase> <within>
time
    where (does|did|do|is|has) [all] [the|my|our] [step|device|gpu|training] time (go|gone|going|spent|been
        spent)
    where do we (spend|lose) [the|our|most|most of the|most of our] time
    what (takes|took|costs|eats|dominates) [the|up] [most|the most] [of] [the] [step|device|gpu] [time] [in a
        step]
    [<show>] [<what>] [the] [step|time] (breakdown|ledger|time breakdown|time split) [by (phase|component|phase
        and component)]
    (which|what) (component|components|phase|phases|part|parts)
        (take|takes|took|cost|costs|dominate|dominates|is slowest|is the slowest|are slowest) [the] [most|longest]
        [<time>]
    [<show>] [the] (phases|components|time by phase|time by component)
regions
    [<show>] [<what>] [the] [{count:number}] [<most>] <region> (are there)
    [<show>] [<what>] [the] [<most>] [{count:number}] <region> [(of|under|in|within|below|for|inside) [the]
        [scope] {name}]
next
    what (should|can|could|shall|would|do|might) (we|i|you|one)
        (try|do|optimize|optimise|fix|improve|change|look at|suggest|recommend|work on|tune|attack)
        [next|first|now|to go faster|to speed it up]
    what (is|comes|to do|to try|to optimize|to fix) [next|first]
    what (next|now)
    [<show>] [any|<what>] [the|your] [optimization|optimisation]
        (suggestions|recommendations|ideas|candidates|advice) [for improvement]
    how (can|could|do|should|would|might) (we|i|you|one) (make|get|speed|improve|optimize|optimise|reduce) [the]
        [step time|<run>] [up] [<faster>]
    how to (make|speed up|improve|optimize|optimise) <run> [<faster>]
    what would (help|save|gain|bring) [us] [the] [most] [time]
    [<what>] [the|our] [biggest|main|largest|worst] (bottleneck|bottlenecks|optimization target|problem)
changes
    what (changed|has changed|is different|differs|regressed|improved|is new|got slower|got faster|became
        slower|became faster|is slower|is faster) [(since|from|against|compared to|compared with|than|to) {name}]
    (did|has) (it|this|<run>) (regress|regressed|improve|improved|get slower|get faster|change|changed)
        [(since|from|against|compared to|compared with|than) {name}]
    [why] <is> (it|this|<run>) (slower|faster) [than|compared to] {name}
    compare [this|it|<run>] (to|with|against|and) {name}
bound_of_step
    <is> <run> [mostly|mainly] {bound:bound}
    what (bounds|limits|is limiting|is bounding) <run>
    what is <run> (bound by|limited by|bounded by)
bound
    <is> <thing> {name} {bound:bound}
    what (bounds|limits|is limiting|is bounding) <thing> {name}
    what <is> <thing> {name} (bound by|limited by|bounded by)
    why <is> <thing> {name} [so] (slow|slower|expensive)
    how (close|near) <is> <thing> {name} to (the roof|the roofline|its roof|peak|the peak)
    how (efficient|good|well optimized) <is> <thing> {name}
    [<show>] [<what>] [the] (roofline|roofline point|arithmetic intensity|intensity|efficiency|roofline
        efficiency|bound) (of|for) <thing> {name}
context
    [<show>] [<what>] [the] context (for|of|around|on) [the] [<op>|gap|gap before|component|scope] {name}
    where (does|do|is|are) <thing> {name} (come from|called|defined|run|from)
    [<show>] (about|details of|details for|details about|everything about) <thing> {name}
    (explain|describe) <thing> {name}
    what (is|are) [the] (<op>|component|scope) {name}
"""
