"""Launches rocprofv3 so that it cannot fail silently: command lines (pure), preflight, run, verification."""
