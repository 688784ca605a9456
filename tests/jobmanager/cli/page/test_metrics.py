"""The metrics parse as Prometheus does it, and match the page that documents them."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobmanager.cli.page.metrics import METRICS, PREFIX, exposition
from streamscope.testing.servers.broker import free_port
from tests.jobmanager.cli.page.cases import NOW_US, S, host, status
from tests.rooms import ROOT
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "howto" / "monitor.md"
FOLDER = ROOT / "docs" / "howto" / "monitoring"
MARK = "<!-- metrics -->\n"


def shown_names() -> dict[str, str]:
    """The metric names as a query writes them, with their kinds."""
    return {PREFIX + m.name + ("_total" if m.kind == "counter" else ""): m.kind for m in METRICS}


def test_every_metric_of_two_jobs_has_its_labels() -> None:
    text = exposition([("one", status()), ("two", status(events_in=3, state="finished"))]).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for metric in METRICS:
        samples = families[PREFIX + metric.name].samples
        if metric.name not in ("reasons", "findings"):
            assert {sample.labels["job"] for sample in samples} == {"one", "two"}, metric
        for sample in samples:
            assert set(sample.labels) == {"job", *metric.labels}, metric


def test_units_are_seconds_and_bytes_and_infinite_times_are_left_out() -> None:
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
        'streamscope_vertex_checkpoint_age_seconds{job="j",stage="s01",vertex="s01.0"} 1.5',
        'streamscope_store_requests_total{job="j",operation="write",process="driver"} 2.0',
        'streamscope_store_requests_total{job="j",operation="delete",process="h0.0"} 5.0',
    } <= lines
    (at,) = (line for line in lines if "watermark_seconds" in line and 's01.0"' in line)
    assert float(at.split()[-1]) == (NOW_US - 2 * S) / S
    assert not any("watermark_seconds" in line and 's01.1"' in line for line in lines)


def test_requests_of_a_process_with_several_hosts_count_once() -> None:
    hosts = [host() | {"host": f"h{n}.0", "pid": pid} for n, pid in enumerate([6, 8, 8])]
    lines = exposition([("j", status(hosts=hosts))]).decode().splitlines()
    reads = [line for line in lines if "store_requests_total" in line and '"read"' in line]
    assert len(reads) == 2
    assert all('"driver"} 3.0' in line or '"h1.0"} 30.0' in line for line in reads)


def test_the_documentation_lists_each_metric(rewrite: bool) -> None:
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


def test_rules_and_dashboard_use_existing_metrics() -> None:
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
            timeout=240,
            check=False,
        )
        assert found.returncode == 0, found.stdout + found.stderr


class Exposed(BaseHTTPRequestHandler):
    """Serves the metrics of a running job: its counters grow with each scrape."""

    scrapes = itertools.count(1)

    def do_GET(self) -> None:
        count = next(self.scrapes)
        found = [{"gravity": "note", "kind": "skew"}]
        body = exposition([("one", status(events_in=100 * count, findings=found))])
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
def test_a_real_prometheus_answers_all_queries_of_the_dashboard(tmp_path: Path) -> None:
    jobs, port = ThreadingHTTPServer(("127.0.0.1", 0), Exposed), free_port()
    threading.Thread(target=jobs.serve_forever).start()
    targets = [{"targets": [f"127.0.0.1:{jobs.server_address[1]}"]}]
    scraped = {"job_name": "streamscope", "honor_labels": True, "static_configs": targets}
    known = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scraped]}
    (tmp_path / "p.yml").write_text(json.dumps(known))  # JSON is YAML
    options = ["--config.file=p.yml", "--storage.tsdb.path=data"]
    options.append(f"--web.listen-address=127.0.0.1:{port}")
    server = subprocess.Popen(["prometheus", *options], cwd=tmp_path, stderr=subprocess.DEVNULL)

    def answer(expression: str) -> list[dict[str, Any]]:
        asked = urlencode({"query": expression})
        try:
            with urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}", timeout=WAIT_S) as got:
                rows: list[dict[str, Any]] = json.load(got)["data"]["result"]
                return rows
        except OSError:  # it has not started yet
            return []

    try:
        deadline_s = time.monotonic() + WAIT_S
        while not answer("rate(streamscope_events_in_total[1m])"):  # after two scrapes
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        dashboard = json.loads((FOLDER / "dashboard.json").read_text())
        for expression in (t["expr"] for panel in dashboard["panels"] for t in panel["targets"]):
            rows = answer(expression)
            assert rows, expression
            assert {row["metric"]["job"] for row in rows} == {"one"}, expression
    finally:
        server.terminate()
        server.wait(WAIT_S)
        jobs.shutdown()
        jobs.server_close()
