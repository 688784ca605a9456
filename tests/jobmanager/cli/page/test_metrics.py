"""The metrics as Prometheus parses them, against the page that documents them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobmanager.cli.page.metrics import METRICS, PREFIX, exposition
from tests.jobmanager.cli.page.cases import NOW_US, S, status
from tests.rooms import ROOT

PAGE = ROOT / "docs" / "howto" / "monitor.md"
FOLDER = ROOT / "docs" / "howto" / "monitoring"
MARK = "<!-- metrics -->\n"


def shown_names() -> dict[str, str]:
    """The names as a query writes them, with their kinds."""
    return {PREFIX + m.name + ("_total" if m.kind == "counter" else ""): m.kind for m in METRICS}


def test_every_metric_of_two_jobs_is_there_with_its_labels() -> None:
    text = exposition([("one", status()), ("two", status(events_in=3, state="finished"))]).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for metric in METRICS:
        samples = families[PREFIX + metric.name].samples
        if metric.name not in ("reasons", "findings"):
            assert {sample.labels["job"] for sample in samples} == {"one", "two"}, metric
        for sample in samples:
            assert set(sample.labels) == {"job", *metric.labels}, metric


def test_values_come_in_seconds_and_bytes_and_without_the_end_of_time() -> None:
    reasons = [{"health": "waiting", "kind": "store"}] * 2
    findings = [{"gravity": "note", "kind": "skew"}, {"gravity": "note", "kind": "late rows"}]
    shown = status(health="waiting", reasons=reasons, findings=findings)
    text = exposition([("j", shown)]).decode()
    lines = set(text.splitlines())
    assert {
        'streamscope_up{job="j"} 1.0',
        'streamscope_health{job="j"} 1.0',
        'streamscope_reasons{health="waiting",job="j",kind="store"} 2.0',
        'streamscope_findings{gravity="note",job="j",kind="skew"} 1.0',
        'streamscope_vertex_busy_seconds_total{job="j",stage="s01",vertex="s01.0"} 2.0',
        'streamscope_log_idle{job="j",partition="1",stage="s00"} 0.0',
        'streamscope_events_in_total{job="j"} 10000.0',
        'streamscope_log_lag_rows{job="j",partition="1",stage="s00"} 10.0',
        'streamscope_log_holds_time_back{job="j",partition="1",stage="s00"} 1.0',
        'streamscope_host_memory_used_bytes{host="h0.0",job="j"} 1.073741824e+09',
    } <= lines
    (at,) = (line for line in lines if "watermark_seconds" in line and 's01.0"' in line)
    assert float(at.split()[-1]) == (NOW_US - 2 * S) / S
    assert not any("watermark_seconds" in line and 's01.1"' in line for line in lines)


def test_the_page_has_each_metric(rewrite: bool) -> None:
    rows = [
        f"| `{name}` | {kind} | {', '.join(('job', *metric.labels))} | {metric.help} |"
        for (name, kind), metric in zip(shown_names().items(), METRICS, strict=True)
    ]
    table = "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]) + "\n"
    before, mark, shown = PAGE.read_text().partition(MARK)
    assert mark, "docs/howto/monitor.md has lost its mark"
    if rewrite:
        PAGE.write_text(before + mark + table)
        return
    assert shown == table, "run pytest tests/jobmanager/cli/page/test_metrics.py --rewrite"


def test_rules_and_dashboard_ask_for_metrics_that_there_are() -> None:
    known = set(shown_names())
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    asked = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    asked += re.findall(r"expr: (.*)", (FOLDER / "alerts.yml").read_text())
    assert len(asked) >= 20
    for expression in asked:
        names = set(re.findall(r"streamscope_\w+", expression))
        assert names, expression
        assert names <= known, (expression, names - known)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_the_alert_rules_pass_their_own_tests() -> None:
    for check in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        found = subprocess.run(
            ["promtool", *check],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert found.returncode == 0, found.stdout + found.stderr
