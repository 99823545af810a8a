"""Errors carry their place, and put it before their text once."""

from __future__ import annotations

import pickle

import pytest

from pipeline.errors import DataError, ExpressionError, InputError, JobError, PipelineError, Problem, RunError, StageError, under


def test_error__says_its_stage_its_key_and_the_line_it_was_given() -> None:
    error = DataError("a sex is 1 or 2", key="sex")
    assert str(error) == "sex: a sex is 1 or 2"
    assert str(error.within("gwas")) == "stage gwas.sex: a sex is 1 or 2"
    assert str(error.within("another")) == "stage gwas.sex: a sex is 1 or 2"
    error.where = "job.yaml:7:3: stages.gwas"
    assert str(error) == "job.yaml:7:3: stages.gwas.sex: a sex is 1 or 2"


@pytest.mark.parametrize("kind", [PipelineError, RunError, DataError, StageError, ExpressionError, InputError])
def test_error__comes_back_from_a_worker_with_its_place(kind: type[PipelineError]) -> None:
    error = kind("wrong", key="by").within("sums")
    error.where = "job.yaml:7:3: stages.sums"
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.text, back.stage, back.key, back.where) == (kind, "wrong", "sums", "by", "job.yaml:7:3: stages.sums")


def test_job_error__comes_back_with_all_its_problems() -> None:
    back = pickle.loads(pickle.dumps(JobError([Problem("job.yaml:1:1", "seed", "5 is above 1"), Problem("", "", "more")])))
    assert str(back) == "job.yaml:1:1: seed: 5 is above 1\nmore"


def test_under__puts_the_parameter_before_what_the_error_names_itself() -> None:
    with pytest.raises(StageError, match=r"^compute\.mean\.order_by: no column 'x'$"), under("compute.mean"):
        raise StageError("no column 'x'", key="order_by")
