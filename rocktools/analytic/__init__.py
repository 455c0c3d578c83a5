"""What should be there by arithmetic alone: expected counts, bytes and bandwidths of collectives."""
