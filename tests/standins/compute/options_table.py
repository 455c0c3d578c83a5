"""The options of rocprof-compute, release by release, as data. Nothing of the code under test imports or feeds it.

A line is: option, short form, form, and a mark for each of the releases 3.0, 3.3, 3.5, 3.6, 3.7, 3.8, 3.9, 3.10.

    flag   no value            some   one or more values        x   accepted
    one    exactly one value   any    none or more values       E   accepted with --experimental
    maybe  none or one         each   one or more; each use     .   not there
                                      adds a group

3.3.0 as released and 3.4 were read nowhere in full: they are the sources of August 2025 (3.3) with what the changelog
says of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from standins.compute.releases import Release

_PROFILE = """
--attach-duration-msec           -   one    ..xxxxxx
--attach-pid                     -   one    ..xxxxxx
--bench-only                     -   flag   ....xxxx
--block                          -b  some   xxxxxxxx
--config-dir                     -   one    .xxxxxxx
--device                         -   one    xxxxxxxx
--dispatch                       -d  some   xxxxxxx.
--experimental                   -   flag   ..xxxxxx
--format-rocprof-output          -   one    xxxxxx..
--hip-trace                      -   flag   xxx.....
--i-feel-lucky                   -   one    x.......
--iteration-multiplexing         -   maybe  ..xxxxxx
--join-type                      -   one    xxxxxx..
--kernel                         -k  some   xxxxxxxx
--kernel-iteration-range         -   some   .......x
--kernel-names                   -   flag   xx......
--kernel-summaries               -   one    x.......
--kokkos-trace                   -   flag   xxxxxxxx
--list-available-metrics         -   flag   ..xxxxxx
--list-blocks                    -   one    ..xxxxxx
--list-metrics                   -   maybe  .xxxxxxx
--list-sets                      -   flag   .xxxxxxx
--mem-level                      -m  some   xxx.....
--membw-analysis                 -   flag   ..EEEEEE
--ml-api-trace                   -   flag   .....EEE
--name                           -n  one    xxxxxxxx
--no-native-tool                 -   flag   ..xxxxxx
--no-roof                        -   flag   xxxxxxxx
--output-directory               -   one    ..xxxxxx
--overwrite                      -   flag   .....xxx
--path                           -p  one    xxxx....
--pc-sampling                    -   flag   ....EEEE
--pc-sampling-interval           -   one    .xxxEEEE
--pc-sampling-method             -   one    .xxxEEEE
--quiet                          -q  flag   xxxxxxxx
--retain-rocpd-output            -   flag   .xxxxxxx
--rocprofiler-sdk-library-path   -   one    .x......
--rocprofiler-sdk-tool-path      -   one    ..xxxxxx
--roof-only                      -   flag   xxxxxxxx
--roofline-data-type             -R  some   .xx.....
--set                            -   one    .xxxxxxx
--sort                           -   one    xxx.....
--spatial-multiplexing           -   some   xxEEE...
--specs                          -s  flag   xxxxxxxx
--subpath                        -   one    xxxx....
--target                         -   one    xxxx....
--torch-trace                    -   flag   ..EEEEEE
--triton-trace                   -   flag   .....EEE
--use-rocscope                   -   one    x.......
--verbose                        -V  flag   xxxxxxxx
--version                        -v  flag   xxxxxxxx
"""

_ANALYZE = """
--block                          -b  some   xxxxxxxx
--cols                           -   some   xxxxxxxx
--config-dir                     -   one    xxxxxxxx
--decimal                        -   one    xxxxxxxx
--dependency                     -   flag   xxxxxxxx
--dispatch                       -d  each   xxxxxxxx
--experimental                   -   flag   ..xxxxxx
--gpu-id                         -   some   xxxxxxxx
--gui                            -   maybe  xxxxEEEE
--include-cols                   -   some   .xxxxxxx
--kernel                         -k  each   xxxxxxxx
--kernel-verbose                 -   one    xxxxxxx.
--list-available-metrics         -   flag   ..xxxxxx
--list-blocks                    -   one    ..xxxxxx
--list-metrics                   -   one    xxxxxxxx
--list-nodes                     -   flag   xxxxx...
--list-stats                     -   flag   xxxxxxxx
--list-torch-operators           -   flag   ..EEEEEE
--list-triton-operators          -   flag   .....EEE
--max-stat-num                   -   one    xxxxxxxx
--mem-level                      -m  some   ...xxxxx
--membw-analysis                 -   flag   ..EEEEEE
--nodes                          -   any    xxxxx...
--normal-unit                    -n  one    xxxxxxxx
--output                         -o  one    xx......
--output-format                  -   one    ..xxxxxx
--output-name                    -   one    ..xxxxxx
--path                           -p  each   xxxxxxxx
--pc-sampling-rows               -   one    .....xxx
--pc-sampling-sorting-type       -   one    .xxxxxxx
--quiet                          -q  flag   xxxxxxxx
--random-port                    -   flag   xxxxxxxx
--report-diff                    -   maybe  xxxxxxxx
--roofline-data-type             -R  some   .xxxxxxx
--save-dfs                       -   one    xx......
--sort                           -   one    ...xxxxx
--spatial-multiplexing           -   flag   .xEEE...
--specs                          -s  flag   xxxxxxxx
--specs-correction               -   some   xxxxxxxx
--time-unit                      -t  one    xxxxxxxx
--torch-operator                 -   any    ..EEEEEE
--triton-operator                -   any    .....EEE
--tui                            -   flag   .xxxEEEE
--verbose                        -V  flag   xxxxxxxx
--version                        -v  flag   xxxxxxxx
--view                           -   one    ...xxxxx
-g                               -   flag   xxxxxxxx
"""

# The short form that the output folder has got, and the iterations have lost.
_SHORT_SINCE_3_10 = {"--output-directory": "-d"}

_CHOICES: dict[str, tuple[str, ...]] = {
    "--format-rocprof-output": ("csv", "rocpd"),
    "--iteration-multiplexing": ("kernel", "kernel_launch_params"),
    "--join-type": ("kernel", "grid"),
    "--output-format": ("stdout", "txt", "csv", "db"),
    "--pc-sampling-method": ("stochastic", "host_trap"),
    "--normal-unit": ("per_wave", "per_cycle", "per_second", "per_kernel"),
    "--time-unit": ("s", "ms", "us", "ns"),
}
_CHOICES_OF_3_0 = {
    "--format-rocprof-output": ("csv", "json"),
    "--block": ("SQ", "SQC", "TA", "TD", "TCP", "TCC", "SPI", "CPC", "CPF"),
}

# Beside the sources of August 2025, by the changelog: the release of ROCm 7.1, and the one after it.
_SINCE_RELEASED_3_3 = {
    "profile": ("--attach-pid - one", "--attach-duration-msec - one", "--list-available-metrics - flag"),
    "analyze": ("--output-format - one", "--output-name - one", "--list-available-metrics - flag"),
}
_SINCE_3_4 = {"profile": ("--list-blocks - one",), "analyze": ("--list-blocks - one",)}
_GONE_IN_RELEASED_3_3 = ("--output", "--save-dfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of one release: spellings, form, choices, and whether it needs --experimental."""

    flags: tuple[str, ...]
    form: str
    choices: tuple[str, ...] = ()
    is_experimental: bool = False

    @property
    def dest(self) -> str:
        return self.flags[0].lstrip("-").replace("-", "_")


def options_of(release: Release, mode: str) -> list[Option]:
    """The options of a mode: `profile` or `analyze`."""
    options = []
    for line in (_PROFILE if mode == "profile" else _ANALYZE).strip().splitlines():
        name, short, form, marks = line.split()
        mark = marks[release.column]
        if mark != ".":
            options.append(_option(release, mode, name, short, form, is_experimental=mark == "E"))
    if release.name in ("3.3.0-released", "3.4"):
        options = [option for option in options if option.flags[0] not in _GONE_IN_RELEASED_3_3]
        added = _SINCE_RELEASED_3_3[mode] + (_SINCE_3_4[mode] if release.name == "3.4" else ())
        options += [_option(release, mode, *line.split()) for line in added]
    return options


def _option(release: Release, mode: str, name: str, short: str, form: str, *, is_experimental: bool = False) -> Option:
    if release.number >= (3, 10):
        short = _SHORT_SINCE_3_10.get(name, short)
    choices = _CHOICES.get(name, ())
    if release.number == (3, 0) and mode == "profile":
        choices = _CHOICES_OF_3_0.get(name, choices)
    flags = (name,) if short in ("-", name) else (name, short)
    return Option(flags=flags, form=form, choices=choices, is_experimental=is_experimental)
