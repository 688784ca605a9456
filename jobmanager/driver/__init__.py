"""The driver: carries out the job manager's instructions and sends it notices."""
