"""Parts shared by the verbs that run a job to its end: days, a batch, a frozen process."""
