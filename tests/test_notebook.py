"""The notebooks run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


@pytest.mark.process
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("genomics", 3),
        pytest.param("risk", 3, marks=pytest.mark.soak),
        pytest.param("simulation", 3, marks=pytest.mark.soak),
        pytest.param("text", 2, marks=pytest.mark.soak),
    ],
)
def test_notebook__runs_and_shows_its_figures(name: str, shown: int) -> None:
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs  # committed without outputs: they are made here
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(figures) == shown
    assert not [output for output in outputs if output.output_type == "error"]
