"""The compiled program as XLA left it: modules, thunk sequences, scopes, cost; no profile and no dispatch."""
