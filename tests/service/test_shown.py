"""What the command line shows of a running service: residuals, and steps measured of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.client import Client
from meshwright.schema import Graph, Topology
from meshwright.schema.observation import Observation
from meshwright_costmodel.fitting import fit_calibration
from meshwright_costmodel.residuals import residuals_of
from tests.costmodel.test_fitting import samples
from tests.service.cli.test_serve import command
from tests.service.conftest import server
from tests.service.samples import GRAPH, TOPOLOGY


def test_residuals_and_measured_steps_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with server(tmp_path, planner="default") as (url, _), Client(url) as client:
        made = client.upload_samples(samples())
        assert command("calibrations", "list", "--server", url) == 0
        assert made["calibration"] in capsys.readouterr().out
        assert command("calibrations", "show", made["calibration"], "--server", url) == 0
        said = capsys.readouterr().out
        rows = {line.split()[0]: line.split() for line in said.splitlines() if line.strip()}
        own = samples()
        for residual in residuals_of(fit_calibration(own), own).residuals:
            row = rows[residual.kind]
            assert (row[1], row[2]) == (str(residual.samples), f"{residual.median:.2f}")
        plan = client.plan(Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY)).plan
        assert plan is not None
        assert command("show", plan.id, "--server", url) == 0
        assert "observed" not in capsys.readouterr().out
        step_ns = 1.25 * plan.cost.step_ns
        client.observe(Observation(plan=plan.id, step_ns=step_ns, steps=50, stack="eager"))
        assert command("show", plan.id, "--server", url) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "(50 steps, eager): 1.25 times the predicted" in said


def test_files_are_compared_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    own = samples()
    calibration, measured = tmp_path / "c.json", tmp_path / "s.json"
    calibration.write_text(fit_calibration(own).to_json())
    measured.write_text(own.to_json())
    assert command("calibrations", "show", str(calibration)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"fitted to {own.id}" in said
    (curves,) = fit_calibration(own).curves
    share = curves.product.share
    assert f"product.share {share.value:.4g} {share.spread:.2g} {share.source}" in said
    assert command("calibrations", "show", str(calibration), "--samples", str(measured)) == 0
    said = capsys.readouterr().out
    assert "predicted over measured" in said
    assert "all_reduce" in said or "all_gather" in said
