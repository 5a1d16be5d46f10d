"""Requests that schemathesis makes from the OpenAPI of the servers.

`serve` has an OpenAPI at /openapi.json. `review` publishes none: the one that FastAPI makes of its application is written to a
file.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tools.campaign.campaign import Campaign
from tools.campaign.requests import WORDS
from tools.campaign.servers import start
from tools.campaign.trial import fork, wait_for

EXAMPLES = 60  # of each operation
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
SERVER_ERRORS = "not_a_server_error"
"""A review is used by its own page alone: its answers to wrong requests are in no schema."""


def schemas(campaign: Campaign) -> int:
    """Run schemathesis against both servers; return 1 if it finds an error or the servers log one."""
    if find_spec("schemathesis") is None:
        raise SystemExit("schemathesis is not installed: pip install -c constraints.txt schemathesis")
    folder = campaign.fresh()
    schema = folder / "review-openapi.json"
    if wait_for(fork(lambda: _write_schema(folder, schema)), None) != 0:
        raise SystemExit("the OpenAPI of review could not be made")
    failed = False
    for name, words in WORDS.items():
        server = start(name, words, folder)
        url = f"http://127.0.0.1:{server.port}"
        place, checks = (f"{url}/openapi.json", CHECKS) if name == "serve" else (str(schema), SERVER_ERRORS)
        program = [str(Path(sys.executable).with_name("schemathesis")), "run", place, "--url", url, "--checks", checks]
        program += ["--max-examples", str(EXAMPLES), "--seed", str(campaign.seed), "--generation-database", "none"]
        print(f"{name}: {' '.join(program)}", flush=True)
        failed |= subprocess.run(program, check=False, cwd=folder).returncode != 0
        server.stop()
        if "Traceback" in (log := server.new_log()):
            print(log)
            failed = True
    return int(failed)


def _write_schema(folder: Path, schema: Path) -> int:
    """Write the OpenAPI that FastAPI makes of a review."""
    from aevlp.config.config import build_config
    from aevlp.data.answers import AnswerStore
    from aevlp.data.readers import read
    from aevlp.inference.review.access import Access
    from aevlp.inference.review.app import make_app
    from aevlp.inference.review.session import ReviewSession
    from aevlp.inference.review.tiles import TeacherTiles

    os.chdir(folder)
    table = read(Path("completed.jsonl"), None)
    session = ReviewSession(table, AnswerStore(Path("schema.sqlite")), grid=12, audit=0, precision=0.9)
    app = make_app(session, TeacherTiles(build_config("default", "aevlp", {}), table), Access(), "anna")
    schema.write_text(json.dumps(app.openapi()))
    return 0
