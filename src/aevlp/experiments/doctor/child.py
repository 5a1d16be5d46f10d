"""A step of a check, in a process of its own: python -m aevlp.experiments.doctor.child FUNCTION ARGUMENT DEVICE FOLDER."""

import sys
import traceback
from pathlib import Path

from aevlp.core.errors import one_line
from aevlp.core.files import write_json
from aevlp.experiments.doctor.checks import ANSWER
from aevlp.experiments.doctor.steps import STEPS, Patient, Wrong


def main(function: str, argument: str, device: str, folder: Path) -> None:
    """Take the step, and write what was seen to `answer.json` in the folder."""
    try:
        answer = {"passed": True, "seen": STEPS[function](Patient(device, folder), argument)}
    except Wrong as error:
        answer = {"passed": False, "seen": str(error)}
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        answer = {"passed": False, "seen": f"{one_line(error)} ({Path(place.filename).name}, line {place.lineno})"}
    write_json(folder / ANSWER, answer)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
