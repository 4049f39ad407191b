"""How it is learned: losses, truncated back-propagation, clipping."""
