"""The service: batches of agents on sandboxes, with a history that can be rebuilt."""
