# The image of GPU hosts, and of the scheduler and the job beside them: docker build -f deploy/gpu.Dockerfile -t gpu-table-pipeline:gpu .
#
# RAPIDS brings its CUDA libraries; the host has the driver (for CUDA 13) and NVIDIA's container toolkit. No key and no data is in it.
FROM nvidia/cuda:13.0.1-base-ubuntu24.04 AS build
ARG EXTRAS=gpu
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY pipeline pipeline
RUN python3 -m venv /opt/pipeline && /opt/pipeline/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM nvidia/cuda:13.0.1-base-ubuntu24.04
# What UCX speaks InfiniBand and RoCE with; without such a network it lies idle.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 ibverbs-providers libibverbs1 librdmacm1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/pipeline /opt/pipeline
# Any user may run it, on a root file system that is read-only: /scratch is for parts that do not fit into memory, /tmp for the rest.
RUN mkdir --mode=1777 /scratch && mkdir /work
ENV PATH=/opt/pipeline/bin:$PATH \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/tmp/numba \
    CUPY_CACHE_DIR=/tmp/cupy \
    DASK_TEMPORARY_DIRECTORY=/scratch \
    PYTHONUNBUFFERED=1
WORKDIR /work
USER 1000:1000
CMD ["python", "-m", "pipeline.run", "--help"]
