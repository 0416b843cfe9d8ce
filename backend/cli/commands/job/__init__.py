"""Create, start, queue, watch and stop jobs."""
