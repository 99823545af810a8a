# The image of CPU hosts: docker build -f deploy/cpu.Dockerfile -t gpu-table-pipeline:cpu .
#
# It has no entry point: what it runs is said in full (dask scheduler, dask worker, python -m pipeline.run). No key and no data is in it.
FROM python:3.12-slim AS build
ARG EXTRAS=cpu
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY pipeline pipeline
RUN python -m venv /opt/pipeline && /opt/pipeline/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:3.12-slim
COPY --from=build /opt/pipeline /opt/pipeline
# Any user may run it, on a root file system that is read-only: /scratch is for parts that do not fit into memory, /tmp for the rest.
RUN mkdir --mode=1777 /scratch && mkdir /work
ENV PATH=/opt/pipeline/bin:$PATH \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/tmp/numba \
    DASK_TEMPORARY_DIRECTORY=/scratch \
    PYTHONUNBUFFERED=1
WORKDIR /work
USER 1000:1000
CMD ["python", "-m", "pipeline.run", "--help"]
