"""deploy/: its files are what the programs that read them take, its commands are understood, and nothing in it is open or secret.

What runs on hosts with GPUs is in tests/contract/test_deploy.py, and the page itself in tests/clusters/test_hosts.py.
"""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dask
import pytest
from ruamel.yaml import YAML

from pipeline.run import parser
from tests.deployed import DEPLOY, ROOT, commands, compose, documents, page, pods, understood

KEYS = {
    *("build", "cap_drop", "command", "depends_on", "deploy", "entrypoint", "environment", "healthcheck", "image", "init", "networks"),
    *("ports", "profiles", "read_only", "restart", "secrets", "security_opt", "tmpfs", "user", "volumes"),
}
DOCKERFILES = ("cpu.Dockerfile", "gpu.Dockerfile")


def ran(*words: str, code: int = 0) -> str:
    """What a program says, which must end with this code; the test is skipped where it is not installed."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed here")
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "certificates"
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    ran("sh", str(DEPLOY / "certificates.sh"), str(folder), "30")
    return folder


def test_certificates__are_signed_and_for_their_owner_alone(certificates: Path, tmp_path: Path) -> None:
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in certificates.iterdir()}
    assert files == dict.fromkeys(("ca.pem", "certificate.pem", "key.pem"), 0o600), "and the key that signs is gone"
    known = ("openssl", "verify", "-x509_strict", "-CAfile", f"{certificates}/ca.pem", "-purpose")
    for purpose in ("sslserver", "sslclient"):
        assert ran(*known, purpose, f"{certificates}/certificate.pem").endswith("certificate.pem: OK\n")
    ran("sh", str(DEPLOY / "certificates.sh"), str(tmp_path / "others"))
    assert "unable to get local issuer certificate" in ran(*known, "sslclient", f"{tmp_path}/others/certificate.pem", code=2)


def test_certificates__are_never_written_over(certificates: Path) -> None:
    key = (certificates / "key.pem").read_bytes()
    assert "key.pem is there already" in ran("sh", str(DEPLOY / "certificates.sh"), str(certificates), code=1)
    assert (certificates / "key.pem").read_bytes() == key


@pytest.mark.parametrize("script", ["certificates.sh", "pipeline.sbatch"])
def test_scripts__are_sound(script: str) -> None:
    ran("bash", "-n", str(DEPLOY / script))
    assert ran("shellcheck", str(DEPLOY / script)) == ""


def test_the_page__is_sound_for_sh(tmp_path: Path) -> None:
    blocks = page()
    assert [(block.host, block.stays) for block in blocks] == [("alpha", False), *[("alpha", True)] * 2, ("beta", True), ("beta", False)]
    (tmp_path / "page.sh").write_text("#!/bin/sh\n" + "".join(block.commands for block in blocks), encoding="utf-8")
    assert ran("shellcheck", str(tmp_path / "page.sh")) == ""


def test_the_page__names_every_file_and_says_how_far_it_was_tried() -> None:
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    linked = set(re.findall(r"\]\(([\w.-]+)\)", text))
    assert linked == {path.name for path in DEPLOY.iterdir()} - {"README.md"}
    table = rows[: next(i for i, row in enumerate(rows) if row.startswith("| between"))]
    assert all("untried" in row or "run " in row for row in table)
    assert set(re.findall(r"https?://[^\s,)`]+", text)) == {"http://127.0.0.1:8787"}


@pytest.mark.parametrize("unit", sorted(path.name for path in DEPLOY.glob("*.service")))
def test_units__are_known_to_systemd_and_closed(unit: str, tmp_path: Path) -> None:
    text = (DEPLOY / unit).read_text(encoding="utf-8")
    (tmp_path / unit).write_text(text.replace("/srv/pipeline/.venv/bin/python", "/bin/sh"), encoding="utf-8")
    assert ran("systemd-analyze", "verify", str(tmp_path / unit)) == ""
    ran("systemd-analyze", "security", "--offline=true", "--threshold=20", str(tmp_path / unit))
    assert {"User=pipeline", "Restart=always", "StartLimitIntervalSec=0"} <= set(text.splitlines())


@pytest.mark.parametrize("words", [pytest.param(words, id=where) for where, words in commands() if "cuda" not in words])
def test_commands__are_understood(words: list[str], certificates: Path) -> None:
    program, rest = understood(words)
    rest = [re.sub(r"^(%d|certificates)/", f"{certificates}/", word) for word in rest]
    if program == "pipeline.run":
        assert parser().parse_args(rest).job or "--verify" in rest
        return
    from distributed.cli import dask_scheduler, dask_worker

    main: Any = dask_worker.main if program == "dask worker" else dask_scheduler.main
    given = main.make_context(program, rest).params
    assert given["preload_argv"] == (), "an option that Dask does not know"
    assert given["protocol"] == "tls" or given["tls_ca_file"]
    assert given["host"] or given["interface"], "else it listens to every network"


def environments() -> Iterator[tuple[str, dict[str, str]]]:
    """What every process has in its environment."""
    for name, service in compose()["services"].items():
        yield f"compose {name}", service["environment"]
    for name, pod in pods().items():
        yield f"kubernetes {name}", {one["name"]: one.get("value", "") for one in pod["containers"][0]["env"]}
    for path in [*DEPLOY.glob("*.service"), DEPLOY / "README.md"]:
        yield path.name, dict.fromkeys(re.findall(r"\bDASK_[A-Z_]+\b", path.read_text(encoding="utf-8")), "")


@pytest.mark.parametrize("environment", [pytest.param(environment, id=where) for where, environment in environments()])
def test_settings__are_dasks_own(environment: dict[str, str]) -> None:
    import distributed

    defaults = YAML(typ="safe").load(Path(distributed.__file__).parent / "distributed.yaml")
    known = dask.config.collect_env({name: "1" for name in environment if name.startswith("DASK_DISTRIBUTED__")})
    unknown = set(paths(known)) - set(paths(defaults))
    assert not unknown
    others = {name for name in environment if name.startswith("DASK_") and not name.startswith("DASK_DISTRIBUTED_")}
    assert others <= {"DASK_TEMPORARY_DIRECTORY"}
    if "__CA_FILE" in " ".join(environment):
        assert environment["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"


def paths(settings: dict[str, Any], above: str = "") -> Iterator[str]:
    """Every setting by its names from the top."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from paths(value, f"{above}{name}.".replace("_", "-"))
        else:
            yield f"{above}{name}".replace("_", "-")


@pytest.mark.parametrize("name", list(compose()["services"]))
def test_compose__starts_closed_containers(name: str) -> None:
    top = compose()
    service = top["services"][name]
    assert set(service) <= KEYS
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == "${PIPELINE_USER:-1000:1000}"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert set(service["secrets"]) == set(top["secrets"])
    assert set(service["networks"]) == set(top["networks"])
    named = {value for value in service["environment"].values() if value.startswith("/run/secrets/")}
    assert named == {f"/run/secrets/{secret}" for secret in top["secrets"]}
    assert {Path(secret["file"]).name for secret in top["secrets"].values()} == {"ca.pem", "certificate.pem", "key.pem"}
    assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    folders = [volume for volume in service["volumes"] if isinstance(volume, dict)]
    assert [folder["target"] for folder in folders if not folder.get("read_only")] == ["/work/results"]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_images__hold_the_project_alone_and_run_as_an_ordinary_user(name: str) -> None:
    lines = re.sub(r"\\\n\s*", "", (DEPLOY / name).read_text(encoding="utf-8")).splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert [what for word, what in steps if word == "USER"] == ["1000:1000"]
    sources = [source for word, what in steps if word == "COPY" and "--from" not in what for source in what.split()[:-1]]
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert kept[0] == "*"
    assert {line[1:] for line in kept if line.startswith("!")} == set(sources)
    assert all((ROOT / source).exists() for source in sources)
    (extras,) = [what.removeprefix("EXTRAS=") for word, what in steps if word == "ARG"]
    assert extras in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert not any("://" in what for _, what in steps)


def strict(schema: Any) -> Any:
    """A schema that takes no key which it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: strict(part) for name, part in schema.items()}
    named = "properties" in schema and "additionalProperties" not in schema and isinstance(schema["properties"], dict)
    return {**inner, "additionalProperties": False} if named and schema.get("type", "object") == "object" else inner


@pytest.fixture(scope="module")
def operator() -> Any:
    """The operator's own schema of a DaskCluster's spec."""
    found = find_spec("dask_kubernetes")
    if found is None or not found.submodule_search_locations:
        pytest.skip("dask-kubernetes is not installed here")
    file = Path(found.submodule_search_locations[0], "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml")
    (version,) = YAML(typ="safe").load(file)["spec"]["versions"]
    return strict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])


def test_kubernetes__takes_the_cluster_and_the_pods_of_the_job(operator: Any) -> None:
    check = pytest.importorskip("jsonschema").validate
    cluster, _ = documents("daskcluster.yaml")
    check(cluster["spec"], operator)
    check(pods()["job"], operator["properties"]["worker"]["properties"]["spec"])
    wrong = {**cluster["spec"]["worker"]["spec"], "tolerationz": []}
    with pytest.raises(pytest.importorskip("jsonschema").ValidationError, match="tolerationz"):
        check(wrong, operator["properties"]["worker"]["properties"]["spec"])


def test_kubernetes__finds_the_scheduler_by_the_operators_names() -> None:
    cluster, policy = documents("daskcluster.yaml")
    name = cluster["metadata"]["name"]
    service = pytest.importorskip("dask_kubernetes.constants").SCHEDULER_NAME_TEMPLATE.format(cluster_name=name)
    assert [f"tls://{service}:8786" in pod["containers"][0]["args"] for pod in pods().values()] == [False, True, True]
    labels = {"dask.org/cluster-name": name}
    assert cluster["spec"]["scheduler"]["service"]["selector"] == {**labels, "dask.org/component": "scheduler"}
    assert policy["spec"]["podSelector"] == {"matchLabels": labels}
    (job,) = documents("kubernetes-job.yaml")
    assert labels.items() <= job["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("part", ["scheduler", "worker", "job"])
def test_kubernetes__starts_closed_pods(part: str) -> None:
    pod = pods()[part]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    hardened = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == hardened
    assert {mount["name"] for mount in container["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}
    assert container["resources"]["limits"].get("nvidia.com/gpu") == ("1" if part == "worker" else None)
