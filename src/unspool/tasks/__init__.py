"""What a network is for: tasks, from their data to their measures."""
