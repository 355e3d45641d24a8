"""Files of the demo's folder: profile, plans, rows of requests, result and report."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kwiken.apps.demo.setup.folder import Folder
from kwiken.apps.demo.trial.measure import ArmData
from kwiken.apps.demo.trial.plans import Learned
from kwiken.apps.report.build import build_page, made_line
from kwiken.apps.report.charts.requests import pauses_of, pick_requests
from kwiken.apps.report.model.page import render
from kwiken.apps.report.model.result import DemoResult
from kwiken.apps.report.sections.views import Material, curve_views
from kwiken.model.profile.codec import profile_to_json


def write_folder(folder: Folder, learned: Learned, arms: Mapping[str, ArmData], result: DemoResult) -> None:
    """Write the profile, the plans, the rows of the requests, the result and the report.

    Args:
        learned: profile and plans of the trial.
        arms: measurements by arm, with their traces.
    """
    plan = learned.study.plan
    folder.write("profile.json", profile_to_json(learned.profile) + "\n")
    folder.write("plan-first.json", learned.first.to_json() + "\n")
    folder.write("plan.json", plan.to_json() + "\n")
    folder.write("plan-even.json", learned.even.to_json() + "\n")
    folder.write("plan-p95.json", learned.everywhere.to_json() + "\n")
    folder.write_rows(row for data in arms.values() for row in data.rows)
    folder.write("demo.json", msgspec.json.format(msgspec.json.encode(result), indent=1).decode() + "\n")
    material = Material(
        profile=learned.profile,
        plan=plan,
        even=learned.even,
        result=result,
        arms={arm: data.series()[1] for arm, data in arms.items()},
        requests=pick_requests({arm: data.records for arm, data in arms.items()}, pauses_of(result)),
        curves=curve_views(learned.study.curves, plan, learned.even),
        notes=(f"kwiken report {folder.path} draws this page again.",),
    )
    folder.write("report.html", render(build_page(material, made=made_line(result))))
