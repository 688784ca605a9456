"""Diagnoses a job: what is wrong, since when, the cause and the remedy. Pure."""

from jobmanager.cli.page.doctor.case import Case, Finding
from jobmanager.cli.page.doctor.examination import findings

__all__ = ["Case", "Finding", "findings"]
