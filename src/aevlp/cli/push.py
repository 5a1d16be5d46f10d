"""aevlp push: a trained model onto the Hugging Face hub."""

from collections.abc import Sequence

from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.remote import is_hub_model, local_path
from aevlp.core.tables import next_steps, show
from aevlp.inference.model_location import locate_model
from aevlp.inference.push import push_model


def push(argv: Sequence[str]) -> None:
    """Upload a trained model to the Hugging Face hub: its folder, card, thresholds and report; private by default."""
    parser = Parser("push", push.__doc__ or "", "aevlp push runs/first me/birds")
    parser.add_argument("run", type=local_path, metavar="RUN", help="folder of a trained run, or of a model alone")
    parser.add_argument("name", metavar="NAME", help="name on the hub: OWNER/NAME, or NAME for one of your own")
    parser.add_argument("--public", action="store_true", help="let everybody see it (default: false)")
    text = "leave out report.html, which shows images of the set (default: false)"
    parser.add_argument("--without-report", action="store_true", help=text)
    given = parser.read(argv)
    if is_hub_model(given.run):
        raise UserError(f"{given.run}: this model is on the hub already; give a folder on this machine")
    pushed = push_model(locate_model(given.run), given.name, public=given.public, report=not given.without_report)
    show(f"pushed: {pushed.address} ({'public' if pushed.is_public else 'private'})")
    show(next_steps(["predict", f"hub:{pushed.name}", "PATH"]))
