"""Diagnoses a job: its faults, since when, their causes and remedies. Pure."""

from jobmanager.cli.page.doctor.case import Case as Case, Finding as Finding
from jobmanager.cli.page.doctor.examination import findings as findings
