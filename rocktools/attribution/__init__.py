"""Where the time went: phase and component of every dispatch, and the ledger that adds up."""
