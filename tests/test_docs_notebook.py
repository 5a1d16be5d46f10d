"""docs/notebooks: every notebook runs from its first cell to its last, and is kept with what that printed."""

import shutil

import nbclient
import nbformat
import pytest

from tests.conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.soak
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file, tmp_path):
    notebook = nbformat.read(shutil.copy(file, tmp_path), 4)
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()  # raises an error's
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "labels proposed" in printed
    assert (tmp_path / "runs" / "first" / "report.html").is_file()


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_kept_with_its_outputs_and_without_an_error(file):
    notebook = nbformat.read(file, 4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) >= 5
    assert all(cell.outputs for cell in cells)
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]


def test_there_is_a_notebook():
    assert NOTEBOOKS
