"""Changes of a running job: savepoints, deployment of another query, rollback, rescale."""
