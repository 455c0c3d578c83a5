"""xspace: the profiles of JAX (XSpace, *.xplane.pb)."""
