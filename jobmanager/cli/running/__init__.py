"""What the verbs that run a job to its end share: days, a batch, a frozen process."""
