"""Diagnoses a job: what is wrong, since when, why, and what to do. Pure."""

from jobmanager.cli.page.doctor.case import Case, Finding
from jobmanager.cli.page.doctor.examination import findings

__all__ = ["Case", "Finding", "findings"]
