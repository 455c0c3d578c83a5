"""The name of a kernel -> the expression for `-k` that finds it, in each of the texts that rocprof-compute searches.

* Up to 3.4 the SDK searches in the whole demangled name, without `.kd`.
* Since 3.5 a tool of its own counts. It demangles the symbol together with its `.kd`, and then cuts the name short: a
  name that does not demangle keeps the suffix (`loop_fusion.kd`), and of a C++ name only the last word is left (`f` of
  `void a::f<int>(float*)`). `^loop_fusion$` finds nothing there, and the run ends with exit code 0 and no data. Later
  releases take `.kd` away first.

So each form is an alternative of its own, with its anchors. Kernels that differ in nothing but their template arguments
cannot be told apart there; which ones were counted, the rows say.
"""

from __future__ import annotations

import re

from rocktools.capture.kernel_filter import filter_names

_CLOSING = {")": "(", ">": "<", "]": "["}


def compute_kernel_regex(kernel_name: str, *, is_cut_short: bool) -> str:
    """The expression for one kernel.

    Args:
        kernel_name: clean, as traces have it.
        is_cut_short: whether the release may search in names that are cut short.

    Raises:
        UsageError: the name is empty, or that of a collective, which would wait for other ranks for ever.
    """
    names = [kernel_name]
    if is_cut_short:
        names.append(f"{kernel_name}.kd")
        last_word = find_last_word(kernel_name)
        if last_word and last_word != kernel_name:
            names.append(last_word)
    filter_names([kernel_name])
    return "|".join(f"^{re.escape(name)}$" for name in names)


def find_last_word(kernel_name: str) -> str:
    """What is left of a demangled name without its arguments, template arguments, namespaces and result.

    From the end, whatever stands in brackets is passed over, counting brackets of that one kind; then a word is taken,
    up to a blank or a colon. A name without any of these is its own last word.
    """
    end = len(kernel_name)
    while end:
        closing = kernel_name[end - 1]
        if closing == " ":
            end -= 1
        elif closing in _CLOSING:
            end = _opening_before(kernel_name, end)
        else:
            break
    begin = max(kernel_name.rfind(separator, 0, end) for separator in " :") + 1
    return kernel_name[begin:end]


def _opening_before(text: str, end: int) -> int:
    """Where the bracket that closes at the end of `text[:end]` was opened; 0 where it was not."""
    closing = text[end - 1]
    depth = 0
    for place in range(end - 1, -1, -1):
        depth += (text[place] == closing) - (text[place] == _CLOSING[closing])
        if depth == 0:
            return place
    return 0
