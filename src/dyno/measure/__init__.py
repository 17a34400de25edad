"""The worker's side of a trial: phases, clients, the timed loops, temperature."""
